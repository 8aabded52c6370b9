"""Who is promised a time finds its quota and its array's turn there, too, when it comes."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings

from jobs.bands import Band
from jobs.lifecycle import Reason
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.rank import ranked
from jobs.scheduler.snapshot import Node, Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import NOTHING, PLAIN, late, seeds, usage
from tests.jobs.scheduler.play import Play, cut_short, promised

HOUR = timedelta(hours=1)
IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)
LAB = (Project(1, "vision", None), Project(2, "language", None))
TWO = (node(1, used={50: 4}), node(2, used={51: 2}))
"""The first is free at 13:00, the other half of the second at 14:00."""
ENDS = (running(50, 60, 1, gpus=4.0, project_id=2), running(51, 120, 2, gpus=2.0, project_id=2))
LONG = {"walltime_s": 36_000}


def lab(
    queue: tuple[Pending, ...], limits: Limits | None = None,
    nodes: tuple[Node, ...] = TWO, active: tuple[Running, ...] = ENDS,
) -> Snapshot:  # fmt: skip
    """Project vision has these limits."""
    quotas = (Quota(1, limits),) if limits else ()
    return Snapshot(
        nodes, queue, active, projects=LAB, quotas=quotas,
        quota_usage=usage(list(queue), list(active), NOTHING), policy=IN_ORDER,
    )  # fmt: skip


def task(job_id: int, **more: object) -> Pending:
    return pending(job_id, 4, array_id=1, array_index=job_id, array_limit=1, **LONG, **more)


@pytest.mark.parametrize("limits", [None, Limits(gpus=4), Limits(jobs_running=1)])
def test_the_second_of_whom_one_may_run_is_promised_nothing(limits: Limits | None) -> None:
    """Be it by an array's limit or by a quota: the GPUs of the second node do not stay idle."""
    first, second = task(1, project_id=1), task(2, project_id=1)
    if limits:
        first, second = (replace(one, array_id=None, array_limit=None) for one in (first, second))
    asked = lab((first, second, pending(3, 2, project_id=2, walltime_s=18_000)), limits)
    found = plan(asked, NOW)
    assert [start.job_id for start in found.starts] == [3]
    assert promised(asked, NOW) == {1: (NOW + HOUR).timestamp()}
    assert [found.estimates[number].at for number in (1, 2)] == [NOW + HOUR, NOW + 11 * HOUR]


def test_what_they_are_told() -> None:
    found = plan(lab((task(1), task(2))), NOW).explanations[2]
    assert found.reason is Reason.ARRAY_LIMIT
    assert found.detail == (
        "Its array may run 1 task at once (%1), and the next one comes before it."
    )
    queue = (pending(1, 4, project_id=1, **LONG), pending(2, 4, project_id=1, **LONG))
    found = plan(lab(queue, Limits(gpus=4)), NOW).explanations[2]
    assert found.reason is Reason.QUOTA_GPUS
    assert found.detail == (
        "Project vision may use 4 GPUs at once; what is left of that is kept for job 1, which "
        "comes before it."
    )
    assert found.more == ("Needs 4 GPUs on one node; 2 are free (on n2).",)


def test_room_is_made_for_as_many_of_an_array_as_may_run() -> None:
    idle = tuple(
        Running(
            50 + number, NOW + 10 * HOUR, (number,), band=Band.BEST_EFFORT, gpus=4.0,
            started_at=NOW - 3 * HOUR,
        )
        for number in range(1, 5)
    )  # fmt: skip
    nodes = tuple(node(number, used={50 + number: 4}) for number in range(1, 5))
    queue = tuple(
        replace(task(number), band=Band.PRODUCTION, array_limit=2) for number in range(1, 9)
    )
    asked = replace(lab(queue, None, nodes, idle), policy=Policy(order=Order.SUBMISSION))
    assert len(plan(asked, NOW).preempted) == 2


@pytest.mark.parametrize(
    ("minutes", "gpus", "starts"),
    [(60, 2, True), (61, 2, False), (600, 1, True), (600, 2, False)],
)
def test_who_starts_leaves_the_quota_to_those_before(minutes: int, gpus: int, starts: bool) -> None:
    """Job 1 needs four GPUs of five at 13:00, on the first node."""
    queue = (
        pending(1, 4, project_id=1, only_nodes=("n1",), **LONG),
        pending(2, gpus, project_id=1, walltime_s=60 * minutes),
    )
    found = plan(lab(queue, Limits(gpus=5)), NOW)
    assert [start.job_id for start in found.starts] == ([2] if starts else [])


def test_what_is_given_back_by_then_is_there() -> None:
    """Of six, two are in use until 13:00, when job 1 takes four."""
    active = (replace(ENDS[0], project_id=1, gpus=2.0), ENDS[1])
    queue = (
        pending(1, 4, project_id=1, only_nodes=("n1",), **LONG), pending(2, 2, project_id=1, **LONG)
    )  # fmt: skip
    nodes = (node(1, used={50: 2}), TWO[1])
    found = plan(lab(queue, Limits(gpus=6), nodes, active), NOW)
    assert [start.job_id for start in found.starts] == [2]


def crowded(seed: int) -> Snapshot:
    """Large jobs of two projects wait for nodes that are free at the same times, and small long
    ones come after them."""
    dice = Random(seed)
    ends = {50 + number: dice.choice([60, 60, 120]) for number in range(1, 7)}
    active = [
        running(job_id, end, job_id - 50, gpus=3.0, project_id=dice.choice([1, 2]))
        for job_id, end in ends.items()
    ]
    queue = [
        pending(number, dice.choice([1, 2, 3]), project_id=dice.choice([1, 2]),
                walltime_s=dice.choice([1800, 3600, 36_000]))
        for number in range(1, 12)
    ]  # fmt: skip
    limits = [
        Limits(gpus=dice.choice([None, 3, 6, 12]), jobs_running=dice.choice([None, 4])) for _ in LAB
    ]
    quotas = tuple(Quota(project.id, own) for project, own in zip(LAB, limits, strict=True))
    return Snapshot(
        tuple(node(number, used={50 + number: 3}) for number in range(1, 7)),
        tuple(queue), tuple(active), projects=LAB, quotas=quotas,
        quota_usage=usage(queue, active, NOTHING), policy=replace(IN_ORDER, reservations=3),
    )  # fmt: skip


@settings(max_examples=max(1, settings().max_examples // 2))
@given(seeds)
def test_quotas_put_off_no_promise(seed: int) -> None:
    """Of the first in order, while jobs end at their limits or before, and others come."""
    play = Play(crowded(seed), cut_short(seed))
    kept: dict[int, float] = {}
    for turn in range(12):
        play.submit(replace(job, project_id=1 + job.id % 2) for job in late(seed, turn))
        now = play.now.timestamp()
        order = [job.id for job in ranked(play.snapshot, play.now)]
        begun = {start.job_id for start in play.decide().starts}
        assert all(now <= kept.get(job_id, now) for job_id in begun)
        first = next((job_id for job_id in order if job_id not in begun), None)
        if first in kept:
            assert play.promised.get(first, math.inf) <= kept[first]
        if first in play.promised:
            kept[first] = play.promised[first]
        if not play.advance():
            break
