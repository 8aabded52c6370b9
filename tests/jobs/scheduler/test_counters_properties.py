"""What must hold of quotas for every tree of projects, against an oracle that counts anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.scheduler.counters import Counters
from jobs.scheduler.limits import Holding, Limited, Scope, Usage
from jobs.scheduler.quota import QuotaTree
from jobs.scheduler.tally import BORROWS
from tests.jobs.scheduler.quotas import (
    NOW,
    PERIODS,
    USERS,
    Job,
    Lab,
    Oracle,
    jobs,
    labs,
    queues,
    usage,
)

many = settings(deadline=None)


def counters(lab: Lab, told: Usage | None = None) -> Counters:
    return Counters(lab.projects, lab.quotas, told or usage(), lab.lends)


def add(count: Counters, job: Job) -> None:
    count.add(count.group(*job.key), job.demand.gpus, job.demand.gpu_seconds)


def remove(count: Counters, job: Job) -> None:
    count.remove(count.group(*job.key), job.demand.gpus, job.demand.gpu_seconds)


def check(count: Counters, job: Job) -> int:
    return count.check(count.group(*job.key), job.demand.gpus, job.demand.gpu_seconds)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Lab, list[Job], list[bool]]:
    """Jobs that come, each with whether it goes again."""
    lab = draw(labs())
    queue = draw(queues(lab))
    return lab, queue, draw(st.lists(st.booleans(), min_size=len(queue), max_size=len(queue)))


@many
@given(histories(), st.data())
def test_a_check_is_what_walking_all_ancestors_says(
    history: tuple[Lab, list[Job], list[bool]], data: st.DataObject
) -> None:
    lab, queue, goes = history
    used = {queue[0].key: data.draw(st.sampled_from((0, 3600, 36_000)))}
    count = counters(lab, usage(used))
    active: list[Job] = []
    for job, gone in zip(queue, goes, strict=True):
        oracle = Oracle(lab, active, used)
        found = check(count, job)
        assert (found < 0) == (not oracle.exceeded(job))
        if found < 0:
            assert (found == BORROWS) == oracle.borrows(job)
            add(count, job)
            active.append(job)
        if gone and active:
            remove(count, active.pop(0))


@many
@given(histories())
def test_what_is_allowed_one_by_one_exceeds_nothing_together(
    history: tuple[Lab, list[Job], list[bool]],
) -> None:
    lab, queue, _ = history
    count = counters(lab)
    active: list[Job] = []
    for job in queue:
        if check(count, job) < 0:
            add(count, job)
            active.append(job)
    oracle = Oracle(lab, active)
    for quota in lab.quotas:
        for user_id in USERS:
            there, limits = oracle.against(quota, user_id), quota.limits
            assert limits.jobs_running is None or len(there) <= limits.jobs_running
            hours = oracle.gpu_seconds(quota, user_id) / 3600
            assert limits.gpu_hours is None or hours <= limits.gpu_hours
            if limits.gpus is not None and not oracle.is_guarantee(quota):
                assert sum(job.gpus for job in there) <= limits.gpus
    assert all(used <= total for _, total, used in oracle.pools())


@many
@given(histories())
def test_counters_are_a_recount_whatever_was_added_and_removed(
    history: tuple[Lab, list[Job], list[bool]],
) -> None:
    lab, queue, goes = history
    count = counters(lab)
    for job in queue:
        add(count, job)
    for job, gone in zip(queue, goes, strict=True):
        if gone:
            remove(count, job)
    oracle = Oracle(lab, [job for job, gone in zip(queue, goes, strict=True) if not gone])
    for quota in lab.quotas:
        for user_id in USERS:
            there = oracle.against(quota, user_id)
            hours = oracle.gpu_seconds(quota, user_id) / 3600
            expected = {
                Limited.JOBS_RUNNING: len(there),
                Limited.GPUS: float(sum(job.gpus for job in there)),
                Limited.GPU_HOURS: float(hours),
                Limited.JOBS_PENDING: 0,
            }
            for limited, found in count.standing(quota, user_id).items():
                # A job's GPU-seconds are counted in whole millionths.
                assert found.used + found.held == pytest.approx(expected[limited], abs=1e-6)
                assert found.available == max(0, found.limit - found.used - found.held)
    for project_id, guarantee in oracle.guarantees().items():
        over = max(Fraction(0), oracle.gpus_of(project_id) - guarantee)
        assert count.over_guarantee(project_id) == pytest.approx(float(over))


@many
@given(histories(), st.integers(0, 2**32))
def test_the_order_of_the_input_means_nothing(
    history: tuple[Lab, list[Job], list[bool]], seed: int
) -> None:
    lab, queue, _ = history
    random = Random(seed)
    running = [Holding(job.demand, NOW - timedelta(minutes=5)) for job in queue[:-1]]
    pending = {job.key: 2 for job in queue}
    told = Usage(NOW, tuple(running), pending, {period: {queue[0].key: 60.0} for period in PERIODS})
    turned = replace(
        told,
        running=tuple(random.sample(running, len(running))),
        pending=dict(random.sample(list(pending.items()), len(pending))),
        used=dict(reversed(told.used.items())),
    )
    other = Lab(
        tuple(random.sample(lab.projects, len(lab.projects))),
        tuple(random.sample(lab.quotas, len(lab.quotas))),
        lab.lends,
    )
    first, second = counters(lab, told), counters(other, turned)
    for job in queue:
        asked = (job.demand.gpus, job.demand.gpu_seconds)
        one, two = first.group(*job.key), second.group(*job.key)
        assert min(first.check(one, *asked), 0) == min(second.check(two, *asked), 0)
        assert first.why(one, *asked) == second.why(two, *asked)
        assert first.why_not_submit(one) == second.why_not_submit(two)
        assert first.borrowers(one, job.demand.gpus) == second.borrowers(two, job.demand.gpus)
        assert first.tree.refuse(job.demand) == second.tree.refuse(job.demand)


@many
@given(st.data())
def test_refused_is_what_an_empty_cluster_could_not_start(data: st.DataObject) -> None:
    lab = data.draw(labs())
    job = data.draw(jobs(lab))
    refused = QuotaTree(lab.projects, lab.quotas, lab.lends).refuse(job.demand)
    assert (refused is None) == _could_start_on_its_own(lab, job)


def _could_start_on_its_own(lab: Lab, job: Job) -> bool:
    oracle = Oracle(lab, [])
    limits = oracle.judging(job.demand.project_id, job.demand.band)
    taken_in = all(limit.jobs_pending != 0 for limit in limits)
    return taken_in and not oracle.exceeded(job) and not oracle.forbids(job.demand)


@many
@given(histories())
def test_why_tells_every_limit_in_the_way_and_check_the_first(
    history: tuple[Lab, list[Job], list[bool]],
) -> None:
    lab, queue, _ = history
    count = counters(lab)
    for job in queue[:-1]:
        add(count, job)
    last = queue[-1]
    told = count.why(count.group(*last.key), last.demand.gpus, last.demand.gpu_seconds)
    assert bool(told) == (check(count, last) >= 0)
    assert len(set(told)) == len(told)
    oracle = Oracle(lab, queue[:-1])
    in_the_way = {
        (quota.project_id, quota.scope, quota.band)
        for quota in lab.quotas
        if oracle.counts(quota, last.key, last.demand.user_id) and oracle.exceeds(quota, last)
    }
    assert in_the_way == {
        (why.rule.project_id, why.rule.scope, why.rule.band)
        for why in told
        if why.rule.limited is not Limited.LENDING
    }
    for why in told:
        assert why.over == pytest.approx(why.used + why.held + why.asked - why.rule.limit)
        assert why.over > 0
        assert (why.user_id is None) == (why.rule.scope is Scope.PROJECT)
