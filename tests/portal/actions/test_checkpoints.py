"""What is known of checkpoints from one attempt to the next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.events import CheckpointSeen
from portal.actions import checkpoints
from portal.actions.clock import Times
from portal.models import Allocation, Attempt, Checkpoint, Node, Project, User
from portal.queries import preemption
from tests.portal import cast

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)


@pytest.fixture
def first(node: Node, alice: User, project: Project) -> Allocation:
    return cast.run(cast.job(alice, project, state="RUNNING"), node, 0)


@pytest.fixture
def other_node(db: None) -> Node:
    return cast.node("gpu-2")


def next_attempt(first: Allocation, node: Node | None = None) -> Allocation:
    """On the same node, or that one."""
    Attempt.objects.filter(pk=first.attempt_id).update(ended_at=NOW)
    Allocation.objects.filter(pk=first.pk).update(phase="ended", ended_at=NOW, released_at=NOW)
    attempt = Attempt.objects.create(job=first.attempt.job, number=2, started_at=NOW)
    return Allocation.objects.create(
        attempt=attempt, node=node or first.node, rank=0, key="again", cpus=1, memory_mib=0,
        charged_until=NOW,
    )  # fmt: skip


def note(part: Allocation, name: str = "step_5.pt", at: datetime = NOW, **facts: Any) -> Checkpoint:
    known = {"size_bytes": 10, "modified_at": 0.0, "step": 5, "complete": True}
    seen = CheckpointSeen(key=part.key, name=name, path=f"/c/{name}", **known | facts)
    checkpoints.note({part.key: part}, [seen], Times(0.0, at))
    return Checkpoint.objects.get(node=part.node, path=seen.path)


def again(part: Allocation, **facts: Any) -> Checkpoint:
    """The same file, as a look ten minutes later tells of it."""
    return note(part, at=LATER, **{"modified_at": -600.0} | facts)


def test_what_is_wrong_is_written_down_until_it_is_right(first: Allocation) -> None:
    words = "the file is empty"
    assert note(first, complete=False, problem=words).problem == words
    found = note(first, complete=True, write_s=2.5)
    assert (found.complete, found.problem, found.write_s) == (True, "", 2.5)
    assert len(note(first, complete=False, problem="x" * 5000).problem) == 1000


def test_what_was_cut_off_is_not_made_whole_by_the_next_attempt(first: Allocation) -> None:
    note(first, complete=False)
    second = next_attempt(first)
    found = again(second)
    assert (found.complete, found.cut_off, found.attempt_id) == (False, True, first.attempt_id)
    assert again(second).complete is False
    found = note(second, at=LATER)
    assert (found.complete, found.attempt_id) == (True, second.attempt_id), "it was written anew"


def test_nor_by_another_node_that_sees_the_same_storage(
    first: Allocation, other_node: Node
) -> None:
    note(first, complete=False)
    second = next_attempt(first, other_node)
    assert again(second).complete is False
    assert again(second, size_bytes=11).complete is True, "that is another file"


def test_what_was_wrong_with_a_closed_one_may_be_judged_again(first: Allocation) -> None:
    note(first, complete=False, problem="there was no time")
    assert again(next_attempt(first)).complete is True


def test_how_long_writing_took_is_remembered_while_it_is_the_same(first: Allocation) -> None:
    note(first, write_s=2.5)
    second = next_attempt(first)
    found = again(second)
    assert (found.write_s, found.attempt_id) == (2.5, first.attempt_id)
    found = note(second, at=LATER)
    assert (found.write_s, found.attempt_id) == (None, second.attempt_id)


def test_what_one_node_doubts_is_not_gone_on_from(first: Allocation, other_node: Node) -> None:
    job, new = first.attempt.job, note(first)
    old = Checkpoint.objects.create(
        job=job, attempt=first.attempt, node=first.node, name="step_4.pt", path="/c/step_4.pt",
        size_bytes=10, modified_at=NOW - timedelta(minutes=1), complete=True,
    )  # fmt: skip
    assert preemption.newest_checkpoints([job.pk]) == {job.pk: new}
    doubt = Checkpoint.objects.create(
        job=job, attempt=first.attempt, node=other_node, name=new.name, path=new.path, step=5,
        size_bytes=10, modified_at=NOW, complete=False,
    )  # fmt: skip
    assert preemption.newest_checkpoints([job.pk]) == {job.pk: old}
    assert preemption.newest_flawed([job.pk]) == {job.pk: doubt}


@pytest.mark.parametrize("write_s", [float("inf"), float("nan"), -1.0, 0.0, 1e300])
def test_a_time_that_cannot_be_is_not_believed(first: Allocation, write_s: float) -> None:
    assert note(first, write_s=write_s).write_s is None
