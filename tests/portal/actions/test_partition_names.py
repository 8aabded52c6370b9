"""Whatever names a partition follows when it is renamed, and keeps it from being removed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.limits import Scope
from jobs.scheduler.simulate.changes import Changes, NodesChange
from jobs.scheduler.simulate.quota_change import QuotaChange
from portal.actions import partitions, schedule, submit, what_if
from portal.models import Event, Job, Node, Partition, Project, Quota, User, WhatIf
from tests.portal import cast
from tests.portal.cast import NOW
from tests.portal.views.forms import filled, save

SCRIPT = "#!/bin/bash\n#SBATCH --partition=a100\ntrue\n"


def rename(actor: User | None = None, before: str = "gpu", name: str = "a100") -> bool:
    row = Partition.objects.get(name=before)
    return partitions.rename(partition=row, name=name, actor=actor, now=NOW)


@pytest.fixture
def named(node: Node, project: Project) -> list[Quota]:
    """Quotas that name the node's partition, and one that does not."""
    Partition.objects.create(name="cpu")
    everybody = Quota.objects.create(project=project, partitions=["cpu", "gpu"])
    each = Quota.objects.create(
        project=project, scope=Scope.USER, band=Band.BATCH, partitions=["gpu"]
    )
    other = Quota.objects.create(project=Project.objects.create(name="other"), partitions=["cpu"])
    return [everybody, each, other]


def test_who_may_use_it_still_may(named: list[Quota], alice: User, admin: User) -> None:
    waiting = cast.job(alice, named[0].project)
    assert rename(admin)
    found = [row.partitions for row in Quota.objects.order_by("pk")]
    assert found == [["cpu", "a100"], ["a100"], ["cpu"]]
    request = submit.read(owner=alice, script=SCRIPT, overrides={}, now=NOW)
    assert request.partition.name == "a100"
    assert schedule.schedule(now=NOW) == 1
    assert Job.objects.get(pk=waiting.pk).state == State.CONFIGURING
    told = Event.objects.filter(actor=admin).order_by("pk")
    assert [(event.kind, event.project, event.detail, event.changes) for event in told] == [
        ("partition set", None, "a100", {"name": ["gpu", "a100"]}),
        (
            "quota set", named[0].project, "vision: all users, all bands",
            {"partitions": [["cpu", "gpu"], ["cpu", "a100"]]},
        ),
        (
            "quota set", named[0].project, "vision: each user, batch",
            {"partitions": [["gpu"], ["a100"]]},
        ),
    ]  # fmt: skip
    assert not rename(admin, "a100")
    assert told.count() == 3


def test_a_quota_can_be_changed_afterwards(named: list[Quota], as_admin: Client) -> None:
    row = Partition.objects.get(name="gpu")
    as_admin.post(f"/admin/portal/partition/{row.pk}/change/", {"name": "a100"})
    there = "/projects/vision/quota/"
    save(as_admin, there, **filled(as_admin, there, gpus="4"))
    quota = Quota.objects.get(pk=named[0].pk)
    assert (quota.gpus, set(quota.partitions or ())) == (4, {"cpu", "a100"})


def test_what_is_tried_is_tried_with_the_same_nodes(
    node: Node, admin: User, alice: User, project: Project
) -> None:
    cast.job(alice, project, state=State.COMPLETED)
    asked = [
        Changes(nodes=(NodesChange(f"{kind}: 4 x NVIDIA A100-SXM4-80GB", 1),))
        for kind in ("gpu", "gpu-old")
    ]
    asked.append(Changes(quotas=(QuotaChange(project.pk, partitions=("gpu-old", "gpu")),)))
    rows = [
        WhatIf.objects.create(
            asked_by=admin, asked_at=NOW, since=NOW.replace(hour=0), until=NOW,
            changes=asdict(changes), state=WhatIf.State.DONE,
        )
        for changes in asked
    ]  # fmt: skip
    rename()
    kinds = []
    for row in rows:
        row.refresh_from_db()
        kinds += [change["kind"] for change in row.changes["nodes"]]
    assert Changes.read(rows[2].changes).quotas[0].partitions == ("gpu-old", "a100")
    assert kinds == ["a100: 4 x NVIDIA A100-SXM4-80GB", "gpu-old: 4 x NVIDIA A100-SXM4-80GB"]
    assert what_if.ask_again(row=rows[0], actor=admin, now=NOW).state == WhatIf.State.WAITING


@pytest.mark.parametrize(("before", "name"), [("practice", "mine"), ("gpu", "practice")])
def test_the_practice_labs_keeps_its_name(
    node: Node, as_admin: Client, before: str, name: str
) -> None:
    if before == "practice":
        Partition.objects.create(name="practice")
    with pytest.raises(ValidationError, match="is the practice lab's, and stays"):
        rename(before=before, name=name)
    row = Partition.objects.get(name=before)
    answer = as_admin.post(f"/admin/portal/partition/{row.pk}/change/", {"name": name})
    assert "is the practice lab&#x27;s, and stays" in answer.text
    assert Partition.objects.get(pk=row.pk).name == before


@pytest.mark.parametrize("other", [{"name": "cpu"}, {"name": "two words"}])
def test_a_name_that_is_taken_or_malformed_is_refused(
    named: list[Quota], other: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError) as caught:
        rename(**other)
    assert list(caught.value.message_dict) == ["name"]
    assert not Event.objects.exists()


@pytest.mark.parametrize("many", [False, True])
def test_what_quotas_name_is_not_removed(named: list[Quota], as_admin: Client, many: bool) -> None:
    there, row = "/admin/portal/partition/", Partition.objects.get(name="cpu")
    chosen = {"action": "delete_selected", "_selected_action": [row.pk]}
    address, data = (there, chosen) if many else (f"{there}{row.pk}/delete/", {})
    for sent in (data, data | {"post": "yes"}):
        page = as_admin.post(address, sent).text
        for quota in ("vision: all users, all bands", "other: all users, all bands"):
            assert f"Quota of {quota}" in page
        assert "vision: each user" not in page
    assert Partition.objects.filter(pk=row.pk).exists()
    Quota.objects.all().delete()
    as_admin.post(address, data | {"post": "yes"})
    assert not Partition.objects.filter(pk=row.pk).exists()
