"""Why a job has to wait, in sentences with true numbers, and how much is left."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobs.bands import Band
from jobs.scheduler.counters import Counters
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Demand, Holding, Limited, Limits, Quota, Scope, Standing, Usage
from jobs.scheduler.periods import CalendarMonth, Rolling, Slice
from jobs.scheduler.tally import FITS
from tests.jobs.scheduler.told import NOTHING, Told

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
LAB, VISION = 1, 2
PROJECTS = [Project(LAB, "lab", None), Project(VISION, "vision", LAB)]
MONTH, WEEK = CalendarMonth(), Rolling(7)
KEY = (VISION, 5, Band.BATCH)


def running(
    job_id: int, gpus: float, user_id: int = 5, hours: int = 10, band: Band = Band.BATCH
) -> Holding:
    """Has run for an hour."""
    demand = Demand(job_id, VISION, user_id, band, gpus, hours * 3600, "gpu")
    return Holding(demand, NOW - HOUR)


USAGE = Usage(
    at=NOW,
    running=(
        running(1, 8),
        running(2, 6, user_id=6),
        running(3, 4, band=Band.BEST_EFFORT),
        running(4, 0),
    ),
    pending={KEY: 98, (VISION, 6, Band.BEST_EFFORT): 40},
    used={
        MONTH: {KEY: 700 * 3600, (VISION, 6, Band.BATCH): 100 * 3600},
        WEEK: {KEY: 300 * 3600},
    },
    history=Told({KEY: (Slice(NOW - 100 * HOUR, NOW - 70 * HOUR, 300 * 3600),)}, tuple(PROJECTS)),
)


def told(quota: Quota, usage: Usage = USAGE, gpus: float = 4, hours: float = 10) -> list[str]:
    count = Counters(PROJECTS, [quota], usage)
    return [why.sentence for why in count.why(count.group(*KEY), gpus, gpus * hours * 3600)]


@pytest.mark.parametrize(
    ("quota", "sentence"),
    [
        (
            Quota(VISION, Limits(gpus=16)),
            "Project vision may use 16 GPUs at once: 14 are in use, this asks for 4, 2 too many.",
        ),
        (
            Quota(LAB, Limits(gpus=17.5), band=Band.BATCH),
            "Project lab may use 17.5 GPUs at once in band batch: 14 are in use, this asks for 4, "
            "0.5 too many.",
        ),
        (
            Quota(LAB, Limits(gpus=8), Scope.USER),
            "Each user of project lab may use 8 GPUs at once: 8 of this user's are in use, "
            "this asks for 4, 4 too many.",
        ),
        (
            Quota(VISION, Limits(jobs_running=2)),
            "Project vision may run 2 jobs at once: 3 are running, this is 1 more, 2 too many.",
        ),
        (
            # 126 of 8 x 9 and 6 x 9 are held. On the 1st nothing of that runs any more.
            Quota(VISION, Limits(gpu_hours=960)),
            "Project vision may use 960 GPU-hours in a calendar month: 800 are used and 126 held "
            "for running jobs, this asks for 40, 6 too many. "
            "There will be enough at 00:00 UTC on 1 Dec if nothing else starts.",
        ),
        (
            # 300 were used at 10 an hour from 100 hours ago on; 6 of them have to be a week old.
            Quota(VISION, Limits(gpu_hours=460), period=WEEK),
            "Project vision may use 460 GPU-hours in any 7 days: 300 are used and 126 held "
            "for running jobs, this asks for 40, 6 too many. "
            "There will be enough at 08:36 UTC on 24 Nov if nothing else starts.",
        ),
        (
            Quota(VISION, Limits(gpu_hours=800), Scope.USER),
            "Each user of project vision may use 800 GPU-hours in a calendar month: 700 of this "
            "user's are used and 72 held for running jobs, this asks for 40, 12 too many. "
            "There will be enough at 00:00 UTC on 1 Dec if nothing else starts.",
        ),
    ],
)
def test_why(quota: Quota, sentence: str) -> None:
    assert told(quota) == [sentence]


def test_all_limits_in_the_way_are_told_of_each_kind_the_nearest_first() -> None:
    quotas = [
        Quota(LAB, Limits(gpus=10, jobs_running=3)),
        Quota(VISION, Limits(gpus=12, walltime_s=60)),
        Quota(VISION, Limits(gpus=9), Scope.USER),
    ]
    count = Counters(PROJECTS, quotas, USAGE)
    found = count.why(count.group(*KEY), 4, 4)
    assert [(why.rule.limited, why.rule.project, why.user_id, why.over) for why in found] == [
        (Limited.JOBS_RUNNING, "lab", None, 1),
        (Limited.GPUS, "vision", None, 6),
        (Limited.GPUS, "vision", 5, 3),
        (Limited.GPUS, "lab", None, 8),
    ]


def test_times_are_told_in_the_zone_of_now() -> None:
    usage = replace(USAGE, at=NOW.astimezone(ZoneInfo("Europe/Berlin")))
    quota = Quota(VISION, Limits(gpu_hours=960))
    assert "enough at 01:00 CET on 1 Dec" in told(quota, usage)[0]


def test_no_time_is_told_that_is_not_known() -> None:
    weekly = Quota(VISION, Limits(gpu_hours=460), period=WEEK)
    assert told(weekly, replace(USAGE, history=NOTHING))[0].endswith("6 too many.")
    assert told(Quota(VISION, Limits(gpu_hours=30)))[0].endswith("too many.")


def test_a_start_of_this_very_pass_is_counted_until_it_is_taken_back() -> None:
    quota = Quota(VISION, Limits(gpus=18, gpu_hours=966))
    count = Counters(PROJECTS, [quota], USAGE)
    group = count.group(*KEY)
    assert count.check(group, 4, 4 * 36_000) == FITS
    count.add(group, 4, 4 * 36_000)
    before = count.why(group, 1, 36_000)
    assert [why.over for why in before] == [1, 10]
    assert count.check(group, 1, 36_000) >= 0
    count.remove(group, 4, 4 * 36_000)
    assert count.check(group, 4, 4 * 36_000) == FITS


def test_what_is_told_follows_every_start_and_end_of_the_pass() -> None:
    usage = Usage(NOW, used={MONTH: {}})
    count = Counters(PROJECTS, [Quota(VISION, Limits(gpu_hours=500))], usage)
    group = count.group(*KEY)

    def until() -> list[datetime | None]:
        return [why.until for why in count.why(group, 1, 300 * 3600)]

    count.add(group, 24, 480 * 3600)
    assert until() == [datetime(2026, 12, 1, tzinfo=UTC)]
    # As much in all, but 252 hours of it will be left on 1 Dec.
    count.remove(group, 24, 480 * 3600)
    count.add(group, 1, 480 * 3600)
    assert until() == [datetime(2027, 1, 1, tzinfo=UTC)]
    count.add(group, 1, 3600)
    assert [why.over for why in count.why(group, 1, 300 * 3600)] == [281]
    count.remove(group, 1, 3600)
    count.remove(group, 1, 480 * 3600)
    assert until() == []


def test_a_sentence_tells_the_numbers_of_its_moment() -> None:
    count = Counters(PROJECTS, [Quota(VISION, Limits(gpus=16))], USAGE)
    group = count.group(*KEY)
    first = count.why(group, 4, 0)
    count.add(group, 1, 0)
    assert [why.over for why in count.why(group, 4, 0)] == [3]
    count.remove(group, 1, 0)
    assert count.why(group, 4, 0) == first


def test_a_job_without_gpus_starts_where_no_gpu_is_left() -> None:
    count = Counters(PROJECTS, [Quota(VISION, Limits(gpus=1, gpu_hours=1))], USAGE)
    assert count.check(count.group(*KEY), 0, 0) == FITS
    assert count.why(count.group(*KEY), 0, 0) == ()


def test_best_effort_counts_against_no_quota() -> None:
    quotas = [Quota(VISION, Limits(gpus=14, gpu_hours=0, jobs_running=3, jobs_pending=0))]
    count = Counters(PROJECTS, quotas, USAGE)
    free = count.group(VISION, 5, Band.BEST_EFFORT)
    assert count.check(free, 100, 1e9) == FITS
    assert count.why_not_submit(free) == ()
    assert count.standing(quotas[0])[Limited.GPUS].used == 14


def test_how_many_may_wait() -> None:
    quotas = [
        Quota(VISION, Limits(jobs_pending=100)),
        Quota(LAB, Limits(jobs_pending=40), band=Band.BEST_EFFORT),
    ]
    count = Counters(PROJECTS, quotas, USAGE)
    group = count.group(*KEY)
    assert count.why_not_submit(group, 2) == ()
    assert [why.sentence for why in count.why_not_submit(group, 5)] == [
        "Project vision may have 100 jobs waiting: 98 are waiting, these are 5 more, 3 too many."
    ]
    free = count.why_not_submit(count.group(VISION, 6, Band.BEST_EFFORT))
    assert [why.sentence for why in free] == [
        "Project lab may have 40 jobs waiting in band best-effort: 40 are waiting, "
        "this is 1 more, 1 too many."
    ]


def test_how_much_is_left() -> None:
    quota = Quota(VISION, Limits(gpus=16, gpu_hours=1000, jobs_running=2, jobs_pending=100))
    narrower = Quota(VISION, Limits(gpus=15))
    of_each = Quota(VISION, Limits(gpus=10, walltime_s=60), Scope.USER)
    count = Counters(PROJECTS, [quota, narrower, of_each], USAGE)
    assert count.standing(quota) == {
        Limited.GPUS: Standing(16, 14, 0),
        Limited.GPU_HOURS: Standing(1000, 800, 126),
        Limited.JOBS_RUNNING: Standing(2, 3, 0),
        Limited.JOBS_PENDING: Standing(100, 98, 0),
    }
    left = {limited: found.available for limited, found in count.standing(quota).items()}
    assert left == {"gpus": 2, "gpu_hours": 74, "jobs_running": 0, "jobs_pending": 2}
    assert count.standing(of_each, user_id=6) == {Limited.GPUS: Standing(10, 6, 0)}
    assert count.standing(of_each, user_id=7) == {Limited.GPUS: Standing(10, 0, 0)}


def test_usage_that_does_not_tell_of_a_period_is_refused() -> None:
    with pytest.raises(ValueError, match="what was used in any 30 days"):
        Counters(PROJECTS, [Quota(VISION, Limits(gpu_hours=1), period=Rolling(30))], USAGE)
