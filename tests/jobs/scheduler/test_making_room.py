"""The room that is made: a place for each for whom others leave, and nobody takes it meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.periods import Rolling
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.snapshot import Pending, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending
from tests.jobs.scheduler.generated import snapshots, usage
from tests.jobs.scheduler.play import promised
from tests.jobs.scheduler.test_preempt import EAGER, idle


@pytest.mark.parametrize("reservations", [1, 2, 16])
def test_others_make_room_however_many_before_it_are_promised_a_time(reservations: int) -> None:
    """And for those before it nobody's leaving would do."""
    nodes = (node(1, gpus=2, used={51: 1, 52: 1}), node(2, gpus=2, used={53: 2}))
    gangs = [pending(number, 2, nodes=2, user_id=number) for number in range(1, reservations + 3)]
    running = (idle(51), idle(52), idle(53, 2, band=Band.BATCH, ends_by=NOW + timedelta(days=1)))
    queue = (*gangs, pending(101, 1), pending(102, 1, user_id=9))
    asked = Snapshot(nodes, queue, running, policy=Policy(reservations=reservations))
    found = plan(asked, NOW)
    assert {one.for_id for one in found.preempted} == {101, 102}
    left = tuple(replace(one, leaving=one.id != 53) for one in running)
    asked = replace(asked, running=left, pending=(*gangs, *map(_claiming, queue[-2:])))
    assert promised(asked, NOW).keys() >= {101, 102}


TWINS = Snapshot(
    tuple(node(number, 1, {60 - number: 1}) for number in (1, 2, 3)),
    (),
    tuple(idle(60 - number, number) for number in (1, 2, 3)),
    policy=Policy(reservations=1),
)
"""The youngest is on the first node."""


def test_each_has_a_place_of_its_own_made() -> None:
    """Not that of another whose promise could only be elsewhere while somebody is away to see."""
    queue = (pending(1, 1), pending(2, 1, user_id=2))
    found = plan(replace(TWINS, pending=queue), NOW).preempted
    assert {one.job_id: one.for_id for one in found} == {59: 1, 58: 2}


def test_nobody_leaves_a_node_for_a_gang_whose_other_node_is_promised() -> None:
    nodes = tuple(replace(one, switches=() if one.id == 3 else ("leaf",)) for one in TWINS.nodes)
    queue = (pending(1, 1), pending(2, 1, nodes=2, max_switches=1))
    policy = replace(TWINS.policy, order=Order.SUBMISSION)
    found = plan(replace(TWINS, nodes=nodes, pending=queue, policy=policy), NOW).preempted
    assert [(one.job_id, one.for_id) for one in found] == [(59, 1)]


def test_one_task_has_others_make_room_where_its_array_may_run_one_on_what_it_borrows() -> None:
    lab, guest = Project(1, "lab", None), Project(2, "guest", None)
    tasks = tuple(
        pending(number, 1, project_id=2, array_id=1, array_index=number, array_limit=1)
        for number in (1, 2, 3)
    )
    active = tuple(replace(run, project_id=1) for run in TWINS.running)
    asked = replace(
        TWINS, pending=tasks, running=active, projects=(lab, guest), lends=frozenset({None}),
        quotas=(Quota(1, Limits(gpus=4)), Quota(2, Limits(gpus=0))),
        quota_usage=usage(tasks, active),
    )  # fmt: skip
    assert [one.for_id for one in plan(asked, NOW).preempted] == [1]


def test_nobody_makes_room_for_who_has_no_hours_beside_those_before() -> None:
    queue = tuple(
        pending(number, 1, project_id=1, band=Band.PRODUCTION, walltime_s=36_000)
        for number in (1, 2)
    )
    terms = {"project_id": 1, "band": Band.BATCH, "ends_by": NOW + timedelta(hours=1)}
    active = tuple(idle(60 - number, number, **terms) for number in (1, 2, 3))
    counted = replace(usage(queue, active), used={Rolling(30): {}})
    quota = Quota(1, Limits(gpus=3, gpu_hours=14), period=Rolling(30))
    asked = replace(
        TWINS, pending=queue, running=active, projects=(Project(1, "lab", None),),
        quotas=(quota,), quota_usage=counted, policy=EAGER,
    )  # fmt: skip
    assert [one.for_id for one in plan(asked, NOW).preempted] == [1]


def test_what_a_quota_has_left_is_kept_for_whom_others_make_room() -> None:
    """Or they would have left in vain: who waits for it is told so, and starts after."""
    nodes = (node(1, 4, {51: 4}), node(2, 1))
    large = pending(1, 4, project_id=1)
    small = pending(2, 1, project_id=1, walltime_s=36_000)
    asked = Snapshot(
        nodes, (large, small), (idle(51, gpus=4, project_id=2),),
        projects=(Project(1, "lab", None), Project(2, "other", None)),
        quotas=(Quota(1, Limits(gpus=4)),), policy=Policy(),
        quota_usage=usage((large, small), (idle(51, gpus=4, project_id=2),)),
    )  # fmt: skip
    found = plan(asked, NOW)
    assert ([one.for_id for one in found.preempted], found.starts) == ([1], ())
    assert "job 1" in found.explanations[2].detail
    assert found.estimates[2].at >= NOW + timedelta(seconds=large.walltime_s)
    gone = replace(asked, nodes=(node(1, 4), nodes[1]), running=(), quota_usage=usage((), ()))
    left = replace(gone, pending=(_claiming(large), small))
    assert [start.job_id for start in plan(left, NOW).starts] == [1]


def test_all_for_whom_room_was_made_start_in_it_together() -> None:
    """The first does not take of the fullest node what another needs of it."""
    nodes = (node(1, 4, {101: 1}), node(2, 4))
    queue = [pending(1, 2, nice=-5), pending(2, 3, nice=-2), pending(3, 2)]
    asked = Snapshot(nodes, tuple(map(_claiming, queue)), (idle(101),), policy=Policy())
    assert {start.job_id for start in plan(asked, NOW).starts} == {1, 2, 3}


def test_the_room_of_two_tasks_of_which_one_may_run_is_used_one_after_the_other() -> None:
    queue = [pending(number, 1, array_id=1, array_limit=1) for number in (1, 2)]
    asked = Snapshot((node(1, 2),), tuple(map(_claiming, queue)), (), policy=Policy())
    found = plan(asked, NOW)
    (first,) = found.starts
    second = next(job for job in queue if job.id != first.job_id)
    assert found.estimates[second.id].at == NOW + timedelta(seconds=second.walltime_s)


@given(
    snapshots() | snapshots(plain=True), st.sampled_from([1, 2, 16]), st.sampled_from([0.0, 60.0])
)
def test_who_is_given_room_has_it_when_they_are_gone(
    snapshot: Snapshot, reservations: int, grace_s: float
) -> None:
    """Whatever others are promised: there is a place for all of those, side by side."""
    running = tuple(replace(run, leaving=False) for run in snapshot.running)
    policy = replace(EAGER, reservations=reservations, grace_s=grace_s)
    asked = replace(snapshot, running=running, policy=policy)
    found, told = plan(asked, NOW).preempted, promised(asked, NOW)
    by = NOW.timestamp() + grace_s + 1
    assert all(told[one.for_id] <= by for one in found)


def _claiming(job: Pending) -> Pending:
    """Somebody has been told to make room for it."""
    return replace(job, claimed_at=NOW)
