"""Every limit of a quota that can be tried, on one node, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota, Scope, Usage
from jobs.scheduler.periods import CalendarMonth, Rolling
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.simulate.changes import ChangeError, Changes, changed_workload
from jobs.scheduler.simulate.compare import Comparison, compare
from jobs.scheduler.simulate.quota_change import QuotaChange
from tests.jobs.scheduler.simulate.workloads import nodes, trial, workload

FIRST = Policy(Order.SUBMISSION)
LAB = Project(1, "lab", None)
BELOW = Project(2, "below", 1)
ADA, BEN = 1, 2
H = 3600
# One node of 8 GPUs, three jobs of one user and one of another, each 2 GPUs for 100 s.
JOBS = (
    trial(1, 0, 100, 2, project_id=1, user_id=ADA, request_s=100, band=Band.PRODUCTION),
    trial(2, 0, 100, 2, project_id=2, user_id=ADA, request_s=100),
    trial(3, 0, 100, 2, project_id=1, user_id=ADA, request_s=200),
    trial(4, 0, 100, 2, project_id=1, user_id=BEN, request_s=100),
)
WORK = workload(JOBS, 1, projects=(LAB, BELOW))


def tried(change: QuotaChange, *quotas: Quota) -> Comparison:
    work = replace(WORK, quotas=quotas)
    return compare(work, FIRST, Changes(quotas=(change,)), lambda part: None)


@pytest.mark.parametrize(
    ("change", "mean_s"),
    [
        # Ada's three follow each other: 0, 100, 200; Ben's at once.
        (QuotaChange(1, Scope.USER, gpus=2), 75),
        # Two of Ada's, then the third.
        (QuotaChange(1, Scope.USER, gpus=4), 25),
        # All four follow each other.
        (QuotaChange(1, gpus=2), 150),
        # All of batch do: 2, 3 and 4.
        (QuotaChange(1, band=Band.BATCH, gpus=2), 75),
        # Of Ada's only 2 and 3 do, which are in batch.
        (QuotaChange(1, Scope.USER, Band.BATCH, gpus=2), 25),
        (QuotaChange(1, jobs_running=3), 25),
        (QuotaChange(1, jobs_running=1), 150),
        (QuotaChange(1, Scope.USER, jobs_running=1), 75),
        # Below there is one job only, and what is above is not counted there.
        (QuotaChange(2, Scope.USER, jobs_running=1), 0),
        (QuotaChange(1, jobs_running=4), 0),
    ],
)
def test_who_waits_for_whom(change: QuotaChange, mean_s: float) -> None:
    both = tried(change)
    assert both.now.figures.mean_wait_s == 0
    assert (both.then.figures.mean_wait_s, both.then.refused) == (mean_s, 0)


@pytest.mark.parametrize(
    ("change", "never"),
    [
        (QuotaChange(1, walltime_s=100), {3}),
        (QuotaChange(1, Scope.USER, Band.PRODUCTION, walltime_s=50), {1}),
        (QuotaChange(1, Scope.USER, walltime_s=50), {1, 2, 3, 4}),
        (QuotaChange(2, jobs_running=0), {2}),
        (QuotaChange(1, partitions=("q",)), {1, 2, 3, 4}),
        (QuotaChange(1, partitions=("p", "q")), set()),
        (QuotaChange(2, gpu_models=("other",)), {2}),
        (QuotaChange(1, Scope.USER, gpu_models=("GPU",)), set()),
        (QuotaChange(1, gpu_hours=300 / 3600), {3}),
    ],
)
def test_who_may_never_start(change: QuotaChange, never: set[int]) -> None:
    assert tried(change).then.never == never


def test_jobs_keep_to_the_gpu_models_that_are_left_to_them() -> None:
    """Two nodes, and the second has the other model: Ada's three and Ben's take turns on it."""
    first, second = nodes(2)
    gpus = tuple(replace(gpu, model="other") for gpu in second.gpus[:2])
    work = replace(WORK, nodes=(first, replace(second, gpus=gpus)))
    change = Changes(quotas=(QuotaChange(1, gpu_models=("other",)),))
    both = compare(work, FIRST, change, lambda part: None)
    assert (both.now.figures.mean_wait_s, both.then.figures.mean_wait_s) == (0, 150)


def test_one_limit_is_lifted_and_the_others_stay() -> None:
    one = Quota(1, Limits(gpus=2, jobs_running=3))
    both = tried(QuotaChange(1, lifted=("gpus",)), one)
    assert (both.now.figures.mean_wait_s, both.then.figures.mean_wait_s) == (150, 25)


def test_only_the_quota_of_this_scope_and_band_is_changed() -> None:
    each, band = Quota(1, Limits(gpus=1), Scope.USER), Quota(1, Limits(gpus=2), band=Band.BATCH)
    mine = Quota(1, Limits(gpus=4, jobs_running=3, partitions=frozenset("p")))
    work = replace(WORK, quotas=(each, mine, band))
    change = QuotaChange(1, gpus=8, partitions=("q", "p"), lifted=("jobs_running",))
    then = Quota(1, Limits(gpus=8, partitions=frozenset("pq")))
    assert set(_quotas(work, change)) == {each, band, then}
    free = Quota(1, Limits(), Scope.USER)
    assert set(_quotas(work, QuotaChange(1, Scope.USER, lifted=("gpus",)))) == {free, mine, band}
    other = QuotaChange(2, Scope.USER, Band.BATCH, walltime_s=60)
    made = Quota(2, Limits(walltime_s=60), Scope.USER, Band.BATCH)
    assert set(_quotas(work, other)) == {each, mine, band, made}


def test_gpu_hours_keep_their_period_unless_another_is_said() -> None:
    berlin = CalendarMonth("Europe/Berlin")
    work = replace(
        WORK, time_zone="Europe/Berlin", quotas=(Quota(1, Limits(gpu_hours=1), period=Rolling(7)),)
    )
    for change, hours, period in (
        (QuotaChange(1, gpu_hours=2), 2, Rolling(7)),
        (QuotaChange(1, period_days=0), 1, berlin),
        (QuotaChange(1, gpu_hours=3, period_days=30), 3, Rolling(30)),
    ):
        assert _quotas(work, change) == (Quota(1, Limits(gpu_hours=hours), period=period),)
    (made,) = _quotas(replace(work, quotas=()), QuotaChange(2, gpu_hours=1))
    assert made.period == berlin


def test_another_limit_on_gpu_hours_and_another_period_change_the_waits() -> None:
    """At 6 h 40 are used, and 80 are asked for, two days before the month ends."""
    jobs = (
        trial(1, 0, 5 * H, 8, project_id=1, request_s=10 * H),
        trial(2, 6 * H, H, 8, project_id=1, request_s=10 * H),
    )
    usage = Usage(datetime(2026, 11, 29, tzinfo=UTC))
    work = replace(WORK, jobs=jobs, usage=usage, quotas=(Quota(1, Limits(gpu_hours=100)),))
    # With 120 they fit at once. Of the last two days 20 are gone at 50.5 h.
    for change, wait_h in (
        (QuotaChange(1, gpu_hours=120), 0),
        (QuotaChange(1, period_days=2), 44.5),
    ):
        both = compare(work, FIRST, Changes(quotas=(change,)), lambda part: None)
        assert both.now.figures.max_wait_s == 42 * H
        assert both.then.figures.max_wait_s == pytest.approx(wait_h * H, abs=5)


def test_nothing_that_counts_can_be_limited_in_best_effort() -> None:
    with pytest.raises(ChangeError, match="What runs in best-effort counts against no quota"):
        _quotas(WORK, QuotaChange(1, band=Band.BEST_EFFORT, gpus=1))
    (made,) = _quotas(WORK, QuotaChange(1, band=Band.BEST_EFFORT, walltime_s=1))
    assert made.limits == Limits(walltime_s=1)


def _quotas(work: object, change: QuotaChange) -> tuple[Quota, ...]:
    return changed_workload(work, Changes(quotas=(change,))).quotas
