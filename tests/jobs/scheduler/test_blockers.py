"""Why a job waits: who was told to stop, what is reserved, and all that is in its way at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs.bands import Band
from jobs.lifecycle import Reason
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.snapshot import DependencyState, Reservation, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import usage

HOUR = timedelta(hours=1)


def closed(name: str, start_h: float, end_h: float, *node_ids: int) -> Reservation:
    return Reservation(1, name, NOW + start_h * HOUR, NOW + end_h * HOUR, frozenset(node_ids))


@pytest.mark.parametrize(
    ("reserved", "active", "sentence"),
    [
        (
            closed("maintenance", 2, 6, 1), [],
            "n1 is reserved for maintenance from 14:00 UTC to 18:00 UTC; with a time limit of "
            "1 h 59 min it could run before. It has its place on n1 by 18:00 UTC at the latest.",
        ),
        (
            closed("summer school", -1, 6, 1), [],
            "n1 is reserved for summer school until 18:00 UTC. "
            "It has its place on n1 by 18:00 UTC at the latest.",
        ),
        (
            closed("maintenance", 2, 6, 1, 3), [running(50, 60, 2)],
            "n1 is reserved for maintenance from 14:00 UTC to 18:00 UTC; with a time limit of "
            "1 h 59 min it could run before. Job 50 makes room for it on n2 by 13:00 UTC at the "
            "latest.",
        ),
    ],
)  # fmt: skip
def test_a_reservation_that_it_would_run_into(
    reserved: Reservation, active: list[Running], sentence: str
) -> None:
    nodes = [node(1), node(3, 0)] + [node(2, used={50: 4})] * bool(active)
    asked = Snapshot(
        tuple(nodes), (pending(1, 1, walltime_s=14_400),), tuple(active), reservations=(reserved,)
    )
    why = plan(asked, NOW).explanations[1]
    assert (why.reason, why.detail) == (Reason.RESERVATION, sentence)


def test_room_that_comes_only_after_a_reservation() -> None:
    asked = Snapshot(
        (node(1, used={50: 4}),), (pending(1, 1, walltime_s=14_400),), (running(50, 60, 1),),
        reservations=(closed("maintenance", 2, 6, 1),),
    )  # fmt: skip
    assert plan(asked, NOW).explanations[1].detail == (
        "Needs 1 GPU on one node; none is free. n1 is reserved for maintenance from 14:00 UTC to "
        "18:00 UTC. It has its place on n1 by 18:00 UTC at the latest."
    )


def test_all_that_keeps_it_back_is_told() -> None:
    job = pending(
        1, 9, held=True, begin_at=NOW + HOUR, dependency=DependencyState.WAITING, waits_for=(17,)
    )
    why = plan(Snapshot((node(1),), (job,), (running(17, 125, 1),)), NOW).explanations[1]
    assert why.reason is Reason.HELD_USER
    assert why.more == (
        "Waits for job 17 to end, by 14:05 UTC at the latest.",
        "Asked to start no earlier than 13:00 UTC.",
        "It asks for 9 GPUs on one node; the largest node (n1) has 4. "
        "It cannot start unless such a node is added.",
    )


def test_who_waits_for_a_task_of_its_own_array_is_not_told_to_wait_for_all_of_it() -> None:
    waits = {"array_id": 4, "dependency": DependencyState.WAITING}
    queue = (
        pending(5, array_index=2, waits_for=(4,), **waits),
        pending(6, array_index=3, waits_for=(5,), **waits),
    )
    first = running(4, 125, 1, array_id=4, array_index=1)
    found = plan(Snapshot((node(1, used={4: 1}),), queue, (first,)), NOW).explanations
    assert [found[job.id].detail for job in queue] == [
        "Waits for job 4_1 to end, by 14:05 UTC at the latest.",
        "Waits for job 4_2 to end.",
    ]


def least(job_id: int, **more: object) -> Running:
    """Of the lowest band, and since an hour."""
    values = {"band": Band.BEST_EFFORT, "gpus": 4.0, "started_at": NOW - HOUR} | more
    return replace(running(job_id, 600, 1), **values)  # type: ignore[arg-type]


def test_who_has_been_told_to_stop_is_named() -> None:
    nodes = (node(1, used={50: 4}),)
    sentence = (
        "Needs 2 GPUs on one node; none is free. Job 50 has been told to stop "
        "and makes room for it on n1 by 12:01 UTC at the latest."
    )
    decided = plan(Snapshot(nodes, (pending(1, 2),), (least(50),)), NOW)
    assert [one.job_id for one in decided.preempted] == [50]
    assert decided.explanations[1].detail == sentence
    leaving = least(50, leaving=True, ends_by=NOW + timedelta(minutes=1))
    later = plan(Snapshot(nodes, (pending(1, 2, claimed_at=NOW),), (leaving,)), NOW)
    assert not later.preempted
    assert later.explanations[1].detail == sentence


def test_who_gives_back_what_was_borrowed_is_named() -> None:
    projects = (Project(1, "lab", None), Project(2, "vision", 1), Project(3, "robots", 1))
    borrower = least(50, band=Band.BATCH, project_id=3)
    queue = (pending(1, 1, project_id=2),)
    asked = Snapshot(
        (node(1, used={50: 4}), node(2)), queue, (borrower,), projects=projects,
        quotas=(Quota(2, Limits(gpus=2)), Quota(3, Limits(gpus=2))), lends=frozenset({1}),
        quota_usage=usage(list(queue), [borrower]),
    )  # fmt: skip
    assert plan(asked, NOW).explanations[1].more == (
        "Job 50 has been told to stop to make room.",
    )  # fmt: skip


def test_in_strict_order_who_is_ahead_is_counted() -> None:
    queue = (pending(1, 4), pending(2, 1), pending(3, 1))
    asked = Snapshot(
        (node(1, used={17: 2}),), queue, (running(17, 125, 1),),
        policy=Policy(order=Order.SUBMISSION, backfill=Backfill.NONE),
    )  # fmt: skip
    told = plan(asked, NOW).explanations
    assert told[2].detail == "Jobs start in their order here, and 1 job waits ahead of it."
    assert told[3].detail == "Jobs start in their order here, and 2 jobs wait ahead of it."
