"""When a waiting job is expected to start: a cluster and a queue in, minutes from now out."""

from __future__ import annotations

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
from jobs.scheduler.snapshot import DependencyState, Node, Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import PLAIN, snapshots, usage
from tests.jobs.scheduler.play import promises

IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)
FULL = [node(1, used={50: 4})]
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
    "side by side": (
        FULL, HOUR, [pending(1, 2), pending(2, 2)], {1: (60, 60, 60), 2: (60, 60, 60)},
    ),
    "beside who is first, if it does not delay it": (
        [node(1, used={50: 2, 51: 1})], [running(50, 60, 1), running(51, 30, 1)],
        [pending(1, 4), pending(2, 2, walltime_s=1800), pending(3, 2, walltime_s=1860)],
        {1: (60, 60, 60), 2: (30, 30, 30), 3: (120, 120, 120)},
    ),
    "from its begin time on": (
        FULL, HOUR, [pending(1, 4, begin_at=NOW + timedelta(minutes=90))], {1: (90, 90, 90)},
    ),
    "task by task": (
        [node(1)], [],
        [pending(number, 1, array_id=1, array_limit=1, array_index=number) for number in (1, 2, 3)],
        {2: (60, 60, 60), 3: (120, 120, 120)},
    ),
    "after what it waits for": (
        [node(1, used={50: 1})], HOUR,
        [pending(2, 1, dependency=WAITING, waits_for=(50,)),
         pending(3, 1, dependency=WAITING, waits_for=(2,))],
        {2: (60, 60, 60), 3: (120, 120, 120)},
    ),
    "a gang when the last node is free": (
        [node(1, used={50: 4}), node(2, used={51: 1})], [*HOUR, running(51, 90, 2)],
        [pending(1, 4, nodes=2)], {1: (90, 90, 90)},
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


@given(snapshots(plain=True))
def test_the_first_is_expected_by_the_time_it_is_promised(snapshot: Snapshot) -> None:
    simple = tuple(
        replace(job, resources=replace(job.resources, max_switches=None))
        for job in snapshot.pending
        if not job.resources.shards
    )
    sharing = any(gpu.sharers for at in snapshot.nodes for gpu in at.gpus)
    asked = replace(snapshot, pending=simple, policy=IN_ORDER)
    decided = plan(asked, NOW)
    begun = {start.job_id for start in decided.starts}
    first = next((job for job in ranked(asked, NOW) if job.id not in begun), None)
    promised = promises(asked, NOW)["gpu"].promises
    if first is None or first.id not in promised or sharing:
        return
    late = decided.estimates[first.id].late.timestamp()
    assert late <= promised[first.id].at + 1
