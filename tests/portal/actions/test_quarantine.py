"""A node on which one job after the other fails at its start is taken out."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from jobs.events import Cause
from jobs.lifecycle import State
from portal.actions import findings, quarantine
from portal.models import Allocation, Finding, Node, Project, User
from tests.portal import cast
from tests.portal.cast import NOW


def ended(
    owner: User, project: Project, node: Node, at: datetime, cause: str = Cause.LOST,
    lasted_s: float = 5, **columns: object,
) -> None:  # fmt: skip
    part = cast.run(cast.job(owner, project, state=State.NODE_FAIL), node)
    Allocation.objects.filter(pk=part.pk).update(
        phase=Allocation.Phase.ENDED, cause=cause, ended_at=at, message="No such file.",
        started_at=at - timedelta(seconds=lasted_s), **columns,
    )  # fmt: skip


def at(minute: int) -> datetime:
    return NOW - timedelta(minutes=30 - minute)


def test_three_in_a_row_of_several_people_drain_it(
    node: Node, alice: User, bob: User, project: Project
) -> None:
    other = cast.node("gpu-2")
    for minute, owner in enumerate((alice, bob)):
        ended(owner, project, node, at(minute))
    ended(alice, project, other, at(3))
    assert quarantine.sweep(now=NOW) == []
    ended(alice, project, node, at(4), Cause.LAUNCH_FAILED)
    assert quarantine.sweep(now=NOW) == [node]
    node.refresh_from_db()
    assert node.drained
    one = Finding.objects.get()
    assert (one.kind, one.drained) == ("quarantine", True)
    assert "of alice and bob" in one.text and "No such file." in one.text
    assert quarantine.sweep(now=NOW) == []


@pytest.mark.parametrize(
    "change",
    [
        {"cause": Cause.EXITED},
        {"lasted_s": 61},
        {"stop_wanted_at": NOW},
        {"at": NOW - timedelta(hours=2)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_does_not_count(
    node: Node, alice: User, bob: User, project: Project, change: dict[str, object]
) -> None:
    """The one before last is another matter: then there are no three in a row."""
    ended(alice, project, node, at(1))
    ended(bob, project, node, **{"at": at(2)} | change)  # type: ignore[arg-type]
    ended(alice, project, node, at(3))
    assert quarantine.sweep(now=NOW) == []


def test_one_persons_jobs_may_all_be_wrong(node: Node, alice: User, project: Project) -> None:
    for minute in range(5):
        ended(alice, project, node, at(minute))
    assert quarantine.sweep(now=NOW) == []


def test_after_a_clear_it_gets_another_chance(
    node: Node, alice: User, bob: User, project: Project, admin: User
) -> None:
    for minute, owner in enumerate((alice, bob, alice)):
        ended(owner, project, node, at(minute))
    quarantine.sweep(now=NOW)
    findings.clear(finding=Finding.objects.get(), actor=admin, now=NOW)
    assert quarantine.sweep(now=NOW) == []
    node.refresh_from_db()
    assert not node.drained
