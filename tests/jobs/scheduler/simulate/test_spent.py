"""Limits on GPU-hours in a simulation: held, used, given back and forgotten, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Account, Limits, Quota, Scope, Usage
from jobs.scheduler.periods import CalendarMonth, Rolling, Slice
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.simulate.compare import play
from jobs.scheduler.simulate.lengths import Requested
from jobs.scheduler.simulate.run import Simulation
from jobs.scheduler.simulate.workload import Trial, Workload
from tests.jobs.scheduler.simulate.workloads import lending, played, starts, trial, workload

FIRST = Policy(Order.SUBMISSION)
H = 3600
LAB = (Project(1, "lab", None), Project(2, "below", 1))
MONTH = CalendarMonth()
NOV_29 = datetime(2026, 11, 29, tzinfo=UTC)


def job(number: int, came_h: float, gpus: int = 8, took_h: float = 1, **more: object) -> Trial:
    """Its user asked for 10 h, unless more is said."""
    told = {"project_id": 1, "user_id": 1, "request_s": 10 * H}
    return trial(number, round(came_h * H), round(took_h * H), gpus, **told | more)


def lab(*jobs: Trial, quota: Quota, usage: Usage | None = None) -> Workload:
    """Two nodes of 8 GPUs; time 0 is the beginning of 29 November unless it is said."""
    return workload(jobs, 2, projects=LAB, quotas=(quota,), usage=usage or Usage(NOV_29))


def begun(work: Workload) -> dict[int, float]:
    """In hours."""
    return {job_id: at / H for job_id, at in starts(played(work, FIRST, Requested())).items()}


def test_a_start_is_charged_with_its_walltime_and_gives_back_what_it_did_not_use() -> None:
    quota = Quota(1, Limits(gpu_hours=100))
    # At 1 h 8 of the 80 are used, 20 held for job 4; at 1.5 h 2 of these are used: 90 would be. At
    # 2.5 h job 2 leaves 18.
    found = begun(lab(job(1, 0), job(2, 0), job(3, 0), job(4, 0.5, gpus=2), quota=quota))
    assert found == {1: 0, 2: 1.5, 3: 2.5, 4: 0.5}


def test_what_was_used_in_a_month_counts_until_it_is_over() -> None:
    quota = Quota(1, Limits(gpu_hours=100))
    # 8 GPUs for 5 h are 40, so that 80 more do not fit before 1 December, 48 h later.
    found = begun(lab(job(1, 0, took_h=5), job(2, 6), job(3, 7, gpus=6), quota=quota))
    assert found == {1: 0, 2: 48, 3: 7}


def test_of_what_runs_across_the_end_of_a_month_only_the_rest_counts_then() -> None:
    quota = Quota(1, Limits(gpu_hours=130))
    # From 44 h until 54 h: 32 are used in November, 48 in December. Job 2 uses 80 there, and 40
    # more do not fit before January.
    jobs = job(1, 44, took_h=10), job(2, 44.5, took_h=10), job(3, 50, gpus=4)
    assert begun(lab(*jobs, quota=quota)) == {1: 44, 2: 48, 3: 48 + 31 * 24}


def test_a_calendar_month_is_that_of_its_time_zone() -> None:
    quota = Quota(1, Limits(gpu_hours=100), period=CalendarMonth("Europe/Berlin"))
    assert begun(lab(job(1, 0, took_h=5), job(2, 6), quota=quota)) == {1: 0, 2: 47}


def test_of_the_last_days_hour_by_hour_is_forgotten() -> None:
    quota = Quota(1, Limits(gpu_hours=100), period=Rolling(2))
    # From 0 to 5 h 40 were used. 20 of them have to go: 2.5 h after 48 h.
    found = begun(lab(job(1, 0, took_h=5), job(2, 6), quota=quota))
    assert found[2] == pytest.approx(50.5, abs=5 / H)


def test_one_for_each_user_and_one_for_a_band_count_by_themselves() -> None:
    jobs = (
        job(1, 0, took_h=5), job(2, 0, user_id=2, project_id=2),
        job(3, 6, band=Band.BEST_EFFORT), job(4, 6), job(5, 6, user_id=2),
    )  # fmt: skip
    each = lab(*jobs, quota=Quota(1, Limits(gpu_hours=100), Scope.USER))
    assert begun(each) == {1: 0, 2: 0, 3: 6, 4: 48, 5: 6}
    band = lab(*jobs, quota=Quota(1, Limits(gpu_hours=100), band=Band.PRODUCTION))
    assert begun(band) == {1: 0, 2: 0, 3: 7, 4: 6, 5: 6}


def test_what_had_been_used_before_counts_from_the_beginning_on() -> None:
    quota = Quota(1, Limits(gpu_hours=100))
    used = {MONTH: {(2, 9, Band.BATCH): 60.0 * H, (1, 1, Band.BEST_EFFORT): 1e9}}
    found = begun(lab(job(1, 0, gpus=4), job(2, 0), quota=quota, usage=Usage(NOV_29, used=used)))
    assert found == {1: 0, 2: 48}


def test_of_the_last_days_before_it_leaves_what_is_told_of_it() -> None:
    """80 were used evenly over the day that ended a day before: the first 60 are gone by 18 h."""
    since = NOV_29 - timedelta(days=2)
    told: list[Account] = []

    def history(account: Account) -> tuple[Slice, ...]:
        told.append(account)
        return (Slice(since, since + timedelta(days=1), 80.0 * H),)

    usage = Usage(NOV_29, used={Rolling(2): {(1, 1, Band.BATCH): 80.0 * H}}, history=history)
    quota = Quota(1, Limits(gpu_hours=100), period=Rolling(2))
    found = begun(lab(job(1, 0, gpus=2), job(2, 1), quota=quota, usage=usage))
    assert found[1] == 0 and set(told) == {Account(1)}
    # At 1 h 2 are used of its 20 and 80 - 10/3 before; 80 more need 62 - 10/3 gone.
    assert found[2] == pytest.approx((80 + 2 - 20) / (80 / 24), abs=5 / H)


def test_what_runs_at_the_beginning_is_held_back_by_nothing_and_counts_from_then_on() -> None:
    """It began 5 h before, and 40 of what was used are its own: 5 h more of its 10 h are held."""
    used = {MONTH: {(1, 1, Band.BATCH): 90.0 * H}}
    quota = Quota(1, Limits(gpu_hours=140))
    before = job(1, -5, took_h=7, counts=False)
    jobs = before, job(2, 0, gpus=1), job(3, 0, gpus=2, request_s=15 * H)
    found = begun(lab(*jobs, quota=quota, usage=Usage(NOV_29, used=used)))
    # 90 + 40 + 10 are all; at 1 h job 2 gives 9 back; at 2 h job 1 24: 107 are used, 30 fit.
    assert found == {1: -5, 2: 0, 3: 2}
    alone = lab(before, replace(before, id=2), quota=quota)
    assert begun(alone) == {1: -5, 2: -5}, "before that nothing is charged"


def test_what_those_use_who_run_at_the_beginning_counts_if_nobody_comes_before_they_end() -> None:
    """16 are added to the 90 when it ends at 2 h, or 48 at 6 h, an hour beyond its walltime."""
    used = Usage(NOV_29, used={MONTH: {(1, 1, Band.BATCH): 90.0 * H}})
    quota = Quota(1, Limits(gpu_hours=130))
    before = job(1, -5, took_h=7, counts=False)
    for asked_h, at in ((24, 3), (25, 48)):
        late = job(2, 3, gpus=1, request_s=asked_h * H)
        assert begun(lab(before, late, quota=quota, usage=used))[2] == at
    longer = job(1, -5, took_h=11, counts=False)
    for asked_h, at in ((1, 7), (2, 48)):
        late = job(2, 7, gpus=1, request_s=asked_h * H)
        more = replace(quota, limits=Limits(gpu_hours=139))
        assert begun(lab(longer, late, quota=more, usage=used))[2] == at


def test_who_goes_on_beyond_the_walltime_uses_more() -> None:
    quota = Quota(1, Limits(gpu_hours=100))
    # 80 for its walltime, then 40 more in 5 h: 120, and nothing fits before December.
    found = begun(lab(job(1, 0, took_h=15), job(2, 16, gpus=1), quota=quota))
    assert found == {1: 0, 2: 48}


def test_who_makes_room_keeps_what_was_used() -> None:
    """The borrower leaves after an hour with 8 used, and 80 more are held when it goes on."""
    borrower, owner = job(1, 0, gpus=8, took_h=3), job(2, 1, gpus=8, project_id=2)
    work = replace(lending((borrower, owner), 0, 1), usage=Usage(NOV_29))
    for hours, at in ((88, 2), (87, 48)):
        quotas = (*work.quotas, Quota(1, Limits(gpu_hours=hours)))
        simulation = played(replace(work, quotas=quotas), replace(FIRST, min_run_s=0), Requested())
        assert simulation.runs[1].preemptions == 1
        assert simulation.runs[1].start_s == at * H


def test_who_may_be_kept_back_for_ever_never_starts() -> None:
    """One of them in a thousand days: of twenty eight begin within twenty years."""
    quota = Quota(1, Limits(gpu_hours=10), period=Rolling(1000))
    jobs = tuple(job(number, 0, gpus=1, took_h=10) for number in range(1, 21))
    side = play(lab(*jobs, quota=quota), FIRST, lambda part: None)
    assert (side.refused, side.figures.jobs) == (12, 8)


def test_without_such_a_limit_nothing_is_looked_at() -> None:
    simulation = Simulation(lab(job(1, 0), quota=Quota(1, Limits(gpus=8))), FIRST, Requested())
    simulation.play()
    assert simulation.tally.counters(0).micros == ()
