"""A launch on a GPU that a process of no job has is taken back, where that is wanted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jobs.engines.contract import Launch, Launched
from jobs.lifecycle import State
from portal import reach
from portal.actions import dispatch, schedule
from portal.models import Finding, Job, Node, Project, User
from tests.portal import cast
from tests.portal.cast import NOW

ALIEN = {
    "pid": 4711, "memory_mib": 4096, "run_key": None, "user": "bob", "command": "python x.py",
    "age_s": 7200.0,
}  # fmt: skip


class Machine:
    """Takes in whatever it is sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def launch(self, launches: Sequence[Launch]) -> list[Launched]:
        self.sent += [one.environment["SLURM_JOB_ID"] for one in launches]
        return [Launched(one.key, True) for one in launches]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(reach, "engine", lambda _: made)
    return made


def begin(job: Job, node: Node) -> None:
    schedule.schedule(now=NOW)
    dispatch.dispatch(node_id=node.pk, now=NOW)
    job.refresh_from_db()


@pytest.fixture
def all_four(alice: User, project: Project, node: Node) -> Job:
    node.gpus.filter(index=2).update(processes=[ALIEN])
    return cast.job(alice, project, gpus=4)


def test_a_launch_is_taken_back_and_says_whose_process_it_is(
    node: Node, machine: Machine, all_four: Job, alice: User, project: Project
) -> None:
    Node.objects.update(guards_gpus=True)
    begin(all_four, node)
    assert machine.sent == []
    assert all_four.state == State.PENDING
    attempt = all_four.attempts.get()
    assert attempt.detail.startswith(
        "On gpu-1 GPU 2 is not free. Process 4711 (python x.py) of bob"
    )
    one = Finding.objects.get()
    assert (one.kind, one.gpu) == ("occupied", node.gpus.get(index=2))
    assert one.gpu and one.gpu.out_of_service
    three = cast.job(alice, project, gpus=3)
    begin(three, node)
    assert (machine.sent, three.state) == ([str(three.pk)], State.RUNNING)
    all_four.refresh_from_db()
    assert (all_four.state, all_four.attempts.count()) == (State.PENDING, 1), (
        "it is not tried again"
    )


def test_where_it_is_not_wanted_it_is_only_told(
    node: Node, machine: Machine, all_four: Job
) -> None:
    begin(all_four, node)
    assert machine.sent == [str(all_four.pk)]
    assert not Finding.objects.exists()


def test_what_was_sent_before_is_not_taken_back(
    node: Node, machine: Machine, all_four: Job
) -> None:
    """It may run by now, and what is on its GPUs may be its own."""
    schedule.schedule(now=NOW)
    part = node.allocations.get()
    node.allocations.filter(pk=part.pk).update(
        phase="launching", tries=1, sent_at=NOW - 2 * dispatch.RESEND_AFTER
    )
    Node.objects.update(guards_gpus=True)
    dispatch.dispatch(node_id=node.pk, now=NOW)
    assert machine.sent == [str(all_four.pk)]


def test_old_figures_say_nothing(node: Node, machine: Machine, all_four: Job) -> None:
    Node.objects.update(guards_gpus=True)
    node.gpus.update(sampled_at=None)
    begin(all_four, node)
    assert machine.sent == [str(all_four.pk)]
