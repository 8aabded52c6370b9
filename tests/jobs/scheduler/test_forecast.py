"""When a waiting job is expected to start: a cluster and a queue in, minutes from now out."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.rank import ranked
from jobs.scheduler.snapshot import (
    DependencyState,
    Node,
    Pending,
    Reservation,
    Running,
    Snapshot,
)
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import ARRAY, PLAIN, snapshots, usage
from tests.jobs.scheduler.play import promised

IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)
FULL = [node(1, used={50: 4})]
SHARED = replace(
    node(1, 1),
    gpus=(replace(node(1, 1).gpus[0], shards=4, sharers=((50, 3),)),),
    jobs=(50,),
)
LEAVES = [
    node(1, used={50: 4}, switches=("a", "top")),
    node(2, used={51: 4}, switches=("a", "top")),
    node(3, used={52: 4}, switches=("b", "top")),
]
HOUR = [running(50, 60, 1)]
LIKELY = replace(
    HOUR[0],
    early_end=NOW + timedelta(minutes=10),
    expected_end=NOW + timedelta(minutes=20),
)
WAITING = DependencyState.WAITING

# name: nodes, running, pending -> {job: (early, expected, late)} in minutes
CASES: dict[
    str, tuple[list[Node], list[Running], list[Pending], dict[int, tuple[int, int, int]]]
] = {
    "without history at the time limit": (FULL, HOUR, [pending(1, 4)], {1: (60, 60, 60)}),
    "with history in between": (FULL, [LIKELY], [pending(1, 4)], {1: (10, 20, 60)}),
    "one after the other": (
        FULL, HOUR, [pending(1, 4), pending(2, 4)], {1: (60, 60, 60), 2: (120, 120, 120)},
    ),
    "by the history of who waits, too": (
        FULL, [LIKELY], [pending(1, 4, expected_s=600.0, spread_s=(60.0, 1200.0)), pending(2, 4)],
        {1: (10, 20, 60), 2: (11, 30, 120)},
    ),
    "a job past its limit is about to be gone, and one long past it nobody knows when": (
        [node(1, used={50: 4}), node(2, used={51: 4}, partition="cpu")],
        [running(50, -1, 1), running(51, -2, 2)],
        [pending(1, 4), pending(2, 4, partition="cpu")], {1: (1 / 60, 1 / 60, 1 / 60)},
    ),
    "side by side": (
        FULL, HOUR, [pending(1, 2), pending(2, 2)], {1: (60, 60, 60), 2: (60, 60, 60)},
    ),
    "beside who is first, if it does not delay it": (
        [node(1, used={50: 2, 51: 1})], [running(50, 60, 1), running(51, 30, 1)],
        [pending(1, 4), pending(2, 2, walltime_s=1800), pending(3, 2, walltime_s=1860)],
        {1: (60, 60, 60), 2: (30, 30, 30), 3: (120, 120, 120)},
    ),
    "where nothing is promised to others before it": (
        [node(1, used={50: 4}), node(2, used={51: 3})], [running(50, 60, 1), running(51, 120, 2)],
        [pending(1, 4, walltime_s=36_000), pending(2, 4), pending(3, 1, walltime_s=18_000),
         pending(4, 1, walltime_s=7200)],
        {1: (60, 60, 60), 2: (120, 120, 120), 3: (180, 180, 180)},
    ),
    "from its begin time on": (
        FULL, HOUR, [pending(1, 4, begin_at=NOW + timedelta(minutes=90))], {1: (90, 90, 90)},
    ),
    "task by task": (
        [node(1)], [],
        [pending(number, 1, array_id=1, array_limit=1, array_index=number) for number in (1, 2, 3)],
        {2: (60, 60, 60), 3: (120, 120, 120)},
    ),
    "behind all tasks that run, of whatever limit": (
        [node(1, used={50: 1})], [running(50, 60, 1, array_id=7)],
        [pending(1, 1, array_id=7, array_limit=1, array_index=1, walltime_s=7200),
         pending(2, 1, array_id=7, array_index=2, walltime_s=1800),
         pending(3, 1, array_id=7, array_limit=2, array_index=3)],
        {1: (90, 90, 90), 3: (30, 30, 30)},
    ),
    "behind a task that only its array's limit keeps back": (
        [node(1, used={50: 1})], [running(50, 60, 1, array_id=7)],
        [pending(1, 1, array_id=7, array_limit=1, array_index=1), pending(2, 4)],
        {1: (60, 60, 60), 2: (120, 120, 120)},
    ),
    "after what it waits for": (
        [node(1, used={50: 1})], HOUR,
        [pending(2, 1, dependency=WAITING, waits_for=(50,)),
         pending(3, 1, dependency=WAITING, waits_for=(2,))],
        {2: (60, 60, 60), 3: (120, 120, 120)},
    ),
    "after the task before it, where all have one name": (
        [node(1)], [],
        [pending(1, 1, array_id=1, array_index=1),
         pending(2, 1, array_id=1, array_index=2, dependency=WAITING, waits_for=(1,)),
         pending(3, 1, array_id=1, array_index=3, dependency=WAITING, waits_for=(2,))],
        {2: (60, 60, 60), 3: (120, 120, 120)},
    ),
    "after all tasks of an array": (
        [node(1)], [],
        [pending(1, 3, array_id=1, array_index=1), pending(2, 3, array_id=1, array_index=2),
         pending(3, 1, array_id=3, array_index=1, dependency=WAITING, waits_for=(1,)),
         pending(4, 4, array_id=3, array_index=2, dependency=WAITING, waits_for=(1,))],
        {2: (60, 60, 60), 3: (120, 120, 120), 4: (180, 180, 180)},
    ),
    "a gang when the last node is free": (
        [node(1, used={50: 4}), node(2, used={51: 1})], [*HOUR, running(51, 90, 2)],
        [pending(1, 4, nodes=2)], {1: (90, 90, 90)},
    ),
    "parts of a GPU side by side": (
        [SHARED], HOUR, [pending(number, shards=2) for number in (1, 2, 3)],
        {1: (60, 60, 60), 2: (60, 60, 60), 3: (120, 120, 120)},
    ),
    "a whole GPU after all parts of it": (
        [SHARED], HOUR, [pending(1, shards=1, walltime_s=5400), pending(2, 1)],
        {2: (90, 90, 90)},
    ),
    "a gang when enough is free on few enough switches": (
        LEAVES, [running(50, 90, 1), running(51, 30, 2), running(52, 60, 3)],
        [pending(1, 4, nodes=2, max_switches=1), pending(2, 4, walltime_s=7200)],
        {1: (90, 90, 90), 2: (60, 60, 60)},
    ),
    "nobody knows": (FULL, [], [pending(1, 4)], {}),
    "not before somebody does something": (
        [node(1)], [],
        [pending(1, held=True), pending(2, dependency=WAITING, waits_for=(1,)), pending(3, 5)], {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_when(case: str) -> None:
    nodes, active, queue, expected = CASES[case]
    asked = Snapshot(tuple(nodes), tuple(queue), tuple(active), policy=IN_ORDER)
    found = plan(asked, NOW).estimates
    assert {
        job_id: tuple(map(_minutes, (one.early, one.at, one.late)))
        for job_id, one in found.items()
    } == expected  # fmt: skip


def _minutes(moment: datetime) -> float:
    return (moment - NOW).total_seconds() / 60


def test_arrays_after_arrays_take_memory_by_their_tasks_and_not_by_pairs() -> None:
    assert _peak(600) < 2.8 * _peak(300)


def _peak(tasks: int) -> int:
    """Of a plan in which so many wait for as many."""
    last = tasks + 1
    first = [pending(number, 1, array_id=1) for number in range(1, last)]
    second = [
        pending(number, 1, array_id=last, dependency=WAITING, waits_for=(1,))
        for number in range(last, last + tasks)
    ]
    asked = Snapshot((node(1),), (*first, *second), policy=IN_ORDER)
    tracemalloc.start()
    try:
        assert len(plan(asked, NOW).estimates) == 2 * tasks - len(node(1).gpus)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_who_waits_for_a_quota_starts_when_another_job_ends() -> None:
    queue = (pending(1, 1, project_id=1), pending(2, 1, project_id=1), pending(3, 1))
    held = replace(HOUR[0], project_id=1, gpus=1, started_at=NOW)
    asked = Snapshot(
        (node(1, used={50: 1}),), queue, (held,), projects=(Project(1, "vision", None),),
        quotas=(Quota(1, Limits(jobs_running=1)),), quota_usage=usage(list(queue), [held]),
        policy=IN_ORDER,
    )  # fmt: skip
    found = plan(asked, NOW)
    assert [start.job_id for start in found.starts] == [3]
    assert {job_id: _minutes(one.at) for job_id, one in found.estimates.items()} == {1: 60, 2: 120}


def test_who_others_make_room_for_starts_when_they_are_gone() -> None:
    idle = replace(HOUR[0], band=Band.BEST_EFFORT, gpus=4, started_at=NOW - timedelta(hours=1))
    found = plan(Snapshot(tuple(FULL), (pending(1, 4),), (idle,), policy=Policy()), NOW)
    assert [one.job_id for one in found.preempted] == [50]
    one = found.estimates[1]
    assert (_minutes(one.early), _minutes(one.at), _minutes(one.late)) == (1, 1, 1)


def test_who_made_room_waits_again_in_its_turn() -> None:
    again = pending(50, 4, band=Band.BEST_EFFORT, walltime_s=36_000)
    idle = replace(
        HOUR[0], band=Band.BEST_EFFORT, gpus=4, started_at=NOW - timedelta(hours=1),
        ends_by=NOW + timedelta(hours=9), again=again,
    )  # fmt: skip
    queue = (pending(51, 4), pending(52, 4, band=Band.BEST_EFFORT))
    asked = Snapshot(tuple(FULL), queue, (idle,), policy=Policy())
    found = plan(asked, NOW)
    assert [one.job_id for one in found.preempted] == [50]
    assert {job_id: _minutes(one.at) for job_id, one in found.estimates.items()} == {
        51: 1, 52: 61 + 600
    }  # fmt: skip
    leaving = replace(idle, leaving=True, ends_by=NOW + timedelta(minutes=1))
    later = plan(replace(asked, running=(leaving,)), NOW)
    assert {job_id: _minutes(one.at) for job_id, one in later.estimates.items()} == {
        51: 1, 52: 61 + 600
    }  # fmt: skip


def test_who_waits_for_the_end_of_one_that_makes_room_waits_for_its_second_end() -> None:
    again = pending(50, 4, band=Band.BEST_EFFORT)
    idle = replace(
        HOUR[0], band=Band.BEST_EFFORT, gpus=4, started_at=NOW - timedelta(hours=1), again=again
    )
    queue = (pending(51, 4), pending(52, 1, dependency=WAITING, waits_for=(50,)))
    found = plan(Snapshot(tuple(FULL), queue, (idle,), policy=Policy()), NOW)
    assert _minutes(found.estimates[52].at) == 1 + 60 + 60


def test_nothing_is_told_of_what_would_start_in_more_than_twenty_years() -> None:
    """Not even dates reach as far as the last of these."""
    year = 366 * 86_400
    tasks = tuple(
        pending(number, 1, walltime_s=year, array_id=1, array_index=number, array_limit=1)
        for number in range(1, 9000)
    )
    behind = pending(10_000, 4, walltime_s=60, user_id=2)
    far = Reservation(
        1, "old rack", NOW - timedelta(hours=1), NOW + 25 * timedelta(366), frozenset({1})
    )
    queue = (*tasks, behind, pending(10_001, 1, only_nodes=("n1",)), pending(10_002, 4))
    asked = Snapshot((node(1), node(2)), queue, reservations=(far,), policy=IN_ORDER)
    found = plan(asked, NOW)
    assert [start.job_id for start in found.starts] == [1]
    assert len([job for job in tasks if job.id in found.estimates]) in (19, 20)
    assert 10_001 not in found.estimates
    assert found.explanations.keys() == {job.id for job in queue[1:]}


@given(snapshots(plain=True))
def test_the_first_is_expected_by_the_time_it_is_promised(snapshot: Snapshot) -> None:
    simple = tuple(
        replace(job, resources=replace(job.resources, max_switches=None))
        for job in snapshot.pending
    )
    # Who comes back to the queue may come to be before it.
    running = tuple(replace(run, again=None) for run in snapshot.running)
    asked = replace(snapshot, pending=simple, running=running, policy=IN_ORDER)
    decided = plan(asked, NOW)
    begun = {start.job_id for start in decided.starts}
    first = next((job for job in ranked(asked, NOW) if job.id not in begun), None)
    told = promised(asked, NOW)
    if first is None or first.id not in told:
        return
    late = decided.estimates[first.id].late.timestamp()
    assert late <= told[first.id] + 1


@given(snapshots())
def test_a_task_is_expected_when_few_enough_of_its_array_run(snapshot: Snapshot) -> None:
    """Of those that run when the pass is over, even if all are as short as is likely."""
    decided = plan(snapshot, NOW)
    gone = {one.job_id for one in decided.preempted}
    begun = {start.job_id for start in decided.starts}
    active = [job for job in snapshot.running if job.array_id == ARRAY]
    tasks = [job for job in snapshot.pending if job.id in begun and job.array_id == ARRAY]
    ends = [job.expected_end or job.ends_by for job in active if job.id not in gone]
    lengths = [job.spread_s[0] if job.spread_s else job.expected_s for job in tasks]
    ends += [
        NOW + timedelta(seconds=length or job.walltime_s)
        for job, length in zip(tasks, lengths, strict=True)
    ]
    for job in snapshot.pending:
        if job.array_limit is not None and job.id in decided.estimates:
            early = decided.estimates[job.id].early
            assert sum(end > early for end in ends) < job.array_limit
