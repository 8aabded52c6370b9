"""Which partition nodes join and jobs get that name none, with and without the practice lab."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from django.utils import timezone

from jobs.practice import machines
from portal.actions import nodes, practice
from portal.actions.partitions import default_partition
from portal.models import Event, Node, Partition, Project, User
from portal.queries import room
from tests.portal import cast


@pytest.fixture
def practice_lab(db: None, settings: Any, tmp_path: Path) -> None:
    """Its nodes, in the database; that its machines do not answer does not matter here."""
    settings.PRACTICE_DIR = tmp_path / "practice"
    machines.prepare(settings.PRACTICE_DIR)
    practice.ensure(now=timezone.now())


def real(name: str, partition: Partition | None = None) -> Node:
    return nodes.add(
        name=name, actor=None, now=timezone.now(), transport=Node.Transport.LOCAL,
        partition=partition, spool="/nonexistent/spool",
    )  # fmt: skip


def offered(user: User) -> list[str]:
    return room.choices(user=user)[1]


def test_a_practice_lab_alone_is_the_default(practice_lab: None, alice: User) -> None:
    assert default_partition().name == "practice"
    assert offered(alice) == ["practice"]


def test_real_nodes_have_a_partition_of_their_own(practice_lab: None, alice: User) -> None:
    assert real("gpu-1").partition.name == "gpu"
    assert default_partition().name == "gpu"
    assert offered(alice) == ["gpu", "practice"]
    assert {node.partition.name for node in Node.objects.filter(simulated=True)} == {"practice"}


def test_that_another_partition_is_the_default_is_an_event(practice_lab: None, admin: User) -> None:
    def told() -> list[tuple[str, bool, str]]:
        rows = Event.objects.filter(kind="partition set").order_by("pk")
        of = [(row.detail, row.changes["is_default"][1], str(row.actor)) for row in rows]
        rows.delete()
        return of

    assert told() == [("practice", True, "None")]
    node = real("gpu-1")
    assert told() == [("practice", False, "None"), ("gpu", True, "None")]
    real("gpu-2")
    nodes.remove(node=Node.objects.get(name="gpu-2"), actor=admin, now=timezone.now())
    assert told() == []
    nodes.remove(node=node, actor=admin, now=timezone.now())
    assert told() == [("gpu", False, "root"), ("practice", True, "root")]
    practice.remove(actor=admin, now=timezone.now())
    assert told() == [("practice", False, "None")]


def test_the_removed_practice_lab_leaves_no_partition(
    practice_lab: None, admin: User, alice: User
) -> None:
    practice.remove(actor=admin, now=timezone.now())
    assert offered(alice) == []
    assert default_partition().name == "gpu"
    real("gpu-1")
    assert offered(alice) == ["gpu"]


def test_the_practice_lab_goes_beside_real_nodes(
    practice_lab: None, admin: User, alice: User
) -> None:
    real("gpu-1")
    practice.remove(actor=admin, now=timezone.now())
    assert offered(alice) == ["gpu"]


def test_two_at_once_take_the_practice_lab_away(
    practice_lab: None, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page, and the worker's round that is quicker with each node."""
    remove = nodes.remove

    def after_another(**what: Any) -> None:
        remove(**what)
        remove(**what)

    monkeypatch.setattr(nodes, "remove", after_another)
    practice.remove(actor=admin, now=timezone.now())
    assert not Node.objects.filter(simulated=True).exists()
    assert Event.objects.filter(kind="removed").count() == 3


def test_no_real_node_joins_the_practice_lab(practice_lab: None) -> None:
    with pytest.raises(ValidationError, match="the practice lab's"):
        real("gpu-1", Partition.objects.get(name="practice"))
    assert not Node.objects.filter(simulated=False).exists()


def test_the_default_one_stays_while_it_has_nodes(admin: User, project: Project) -> None:
    first = real("gpu-1")
    a100 = Partition.objects.create(name="a100")
    real("big-1", a100)
    assert default_partition() == first.partition
    nodes.remove(node=first, actor=admin, now=timezone.now())
    assert default_partition() == a100
    assert offered(admin) == ["a100"], "one whose last node went is not offered"


def test_a_partition_that_never_had_nodes_does_not_become_the_default(practice_lab: None) -> None:
    Partition.objects.create(name="a-plan")
    nodes.remove(node=real("gpu-1"), actor=None, now=timezone.now())
    assert default_partition().name == "practice"


def test_an_administrators_choice_stays(db: None) -> None:
    cast.node("gpu-1")
    big = Partition.objects.create(name="big")
    real("big-1", big)
    Partition.objects.update(is_default=False)
    Partition.objects.filter(pk=big.pk).update(is_default=True)
    assert real("big-2").partition == big
    assert default_partition() == big


def test_nodes_added_at_once_choose_one_default(transactional_db: None) -> None:
    parts = [Partition.objects.create(name=f"p{number}") for number in range(4)]
    gate = threading.Barrier(len(parts), timeout=20)

    def add(partition: Partition) -> None:
        gate.wait()
        try:
            real(f"node-in-{partition}", partition)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(parts)) as threads:
        list(threads.map(add, parts))
    assert Node.objects.count() == len(parts)
    assert Partition.objects.filter(is_default=True).count() == 1


def test_the_form_says_so_where_there_is_no_partition(as_alice: Client) -> None:
    page = as_alice.get("/jobs/new/").text
    choices = page[page.index('id="id_partition"') :].partition("</select>")[0]
    assert ">none yet<" in choices
