"""When quotas on GPU-hours have room again, as forecasts foresee it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.lifecycle import Reason
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Account, Key, Limits, Quota, Scope, Usage
from jobs.scheduler.periods import CalendarMonth, Period, Rolling, Slice
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Order
from jobs.scheduler.snapshot import Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import PLAIN, seeds, usage
from tests.jobs.scheduler.recount import without
from tests.jobs.scheduler.told import NOTHING, Told

HOUR = timedelta(hours=1)
MONTH, WEEK = CalendarMonth("UTC"), Rolling(7)
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)
JANUARY = datetime(2027, 1, 1, tzinfo=UTC)
MINE: Key = (1, 1, Band.BATCH)
VISION = (Project(1, "vision", None),)
PROJECTS = (Project(1, "lab", None), Project(2, "vision", 1))
IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)


def job(job_id: int, gpus: int = 1, hours: float = 1, **more: object) -> Pending:
    told = {"project_id": 1, "user_id": 1, "walltime_s": round(hours * 3600)}
    return pending(job_id, gpus, **(told | more))


def runs(job_id: int, gpus: int, hours: float, **more: object) -> Running:
    """Just begun, for so long at most."""
    told: dict[str, object] = {"gpus": gpus, "project_id": 1, "user_id": 1, "started_at": NOW}
    return replace(running(job_id, round(hours * 60), 1), **(told | more))


def lab(
    limit: float,
    period: Period,
    queue: list[Pending],
    used: tuple[Slice, ...] = (),
    active: tuple[Running, ...] = (),
) -> Snapshot:
    """Project 1 with so many GPU-hours, on a node with room for all."""
    taken = {run.id: round(run.gpus) for run in active}
    told = told_at(NOW, Told({MINE: used}, VISION), (period,))
    told = replace(usage(queue, list(active)), used=told.used, history=told.history)
    return Snapshot(
        (node(1, 16, used=taken),), tuple(queue), active,
        projects=VISION,
        quotas=(Quota(1, Limits(gpu_hours=limit), period=period),),
        quota_usage=told, policy=IN_ORDER,
    )  # fmt: skip


def told_at(now: datetime, past: Told, periods: tuple[Period, ...]) -> Usage:
    """What of it counts then."""
    found = {
        period: {
            key: sum(_after(one, period.begin(now)) for one in some)
            for key, some in past.by_key.items()
        }
        for period in periods
    }
    oldest = min(period.begin(now) for period in periods)
    history = {
        key: tuple(_clipped(one, oldest) for one in some if one.end > oldest)
        for key, some in past.by_key.items()
    }
    return Usage(now, used=found, history=replace(past, by_key=history))


def _after(one: Slice, begin: datetime) -> float:
    lasts = (one.end - one.begin).total_seconds()
    part = max(0.0, (one.end - max(one.begin, begin)).total_seconds())
    return one.gpu_seconds * part / lasts


def _clipped(one: Slice, begin: datetime) -> Slice:
    return Slice(max(one.begin, begin), one.end, _after(one, begin))


def ago(hours: float, lasts: float, gpu_hours: float) -> Slice:
    begin = NOW - hours * HOUR
    return Slice(begin, begin + lasts * HOUR, gpu_hours * 3600)


DAY = 24
Case = tuple[
    float, Period, list[Pending], tuple[Slice, ...], tuple[Running, ...], dict[int, datetime]
]
# name: limit, period, waiting, used before, running -> {job: expected}
CASES: dict[str, Case] = {
    "next month": (
        10, MONTH, [job(1, 4)], (ago(48, 1, 8),), (), {1: DECEMBER},
    ),
    "a shorter one now": (
        10, MONTH, [job(1, 4), job(2, 2)], (ago(48, 1, 8),), (), {1: DECEMBER},
    ),
    "as many a month as there is room for": (
        8, MONTH, [job(number, 4) for number in (1, 2, 3, 4, 5)], (ago(48, 1, 8),), (),
        {1: DECEMBER, 2: DECEMBER, 3: JANUARY, 4: JANUARY, 5: datetime(2027, 2, 1, tzinfo=UTC)},
    ),
    "what lasts into the next month counts there for the rest": (
        20, MONTH, [job(1, 4, 2)], (), (runs(50, 1, 240),), {1: DECEMBER},
    ),
    "and for too much of it": (
        19, MONTH, [job(1, 4, 2)], (), (runs(50, 1, 240),), {1: JANUARY},
    ),
    "when a window has let go of enough": (
        10, WEEK, [job(1, 4)], (ago(5 * DAY, 4, 8),), (),
        {1: NOW + 2 * 24 * HOUR + HOUR},
    ),
    "one after the other as it lets go": (
        10, WEEK, [job(1, 4), job(2, 4)], (ago(5 * DAY, 4, 10),), (),
        {1: NOW + 48 * HOUR + 1.6 * HOUR, 2: NOW + 48 * HOUR + 3.2 * HOUR},
    ),
    "what a job has not used comes back at its end": (
        10, MONTH, [job(1, 4)], (),
        (runs(50, 1, 10, expected_end=NOW + 5 * HOUR, early_end=NOW + 5 * HOUR),),
        {1: NOW + 5 * HOUR},
    ),
    "what it has used does not": (
        10, MONTH, [job(1, 4)], (),
        (runs(50, 1, 10, expected_end=NOW + 7 * HOUR, early_end=NOW + 7 * HOUR),),
        {1: DECEMBER},
    ),
    "with the last of it that leaves before a pause, where that is just enough": (
        10, WEEK, [job(1, 4)], (ago(173, 11, 1), ago(113, 25, 1)), (runs(50, 1, 5),),
        {1: NOW + 6 * HOUR},
    ),
    "not while it is not told when it was used": (
        10, WEEK, [job(1, 40)], (), (), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_when(case: str) -> None:
    limit, period, queue, used, active, expected = CASES[case]
    found = plan(lab(limit, period, queue, used, active), NOW)
    told = {job_id: one.at for job_id, one in found.estimates.items()}
    assert set(told) == set(expected)
    for job_id, at in expected.items():
        assert abs(told[job_id] - at) <= timedelta(seconds=3), told[job_id]


def test_when_it_was_used_has_to_be_told() -> None:
    asked = lab(10, WEEK, [job(1, 4)], (ago(48, 1, 8),))
    assert asked.quota_usage is not None
    assert plan(asked, NOW).estimates
    untold = replace(asked, quota_usage=replace(asked.quota_usage, history=NOTHING))
    decided = plan(untold, NOW)
    assert decided.explanations[1].reason is Reason.QUOTA_GPU_HOURS
    assert not decided.estimates


@pytest.mark.parametrize(
    ("limit", "period", "asked"),
    [(100, WEEK, []), (10, WEEK, [Account(1)]), (10, MONTH, [])],
    ids=["in nobody's way", "in the way", "of a month"],
)
def test_what_was_used_is_read_only_for_rolling_limits_in_the_way(
    limit: float, period: Period, asked: list[Account]
) -> None:
    """Others wait behind who runs."""
    queue = lab(limit, period, [job(1, 12), job(2, 12)], (ago(48, 1, 8),), (runs(50, 8, 2),))
    assert queue.quota_usage is not None
    told, read = queue.quota_usage.history, list[Account]()

    def history(account: Account) -> Iterable[Slice]:
        read.append(account)
        return told(account)

    decided = plan(replace(queue, quota_usage=replace(queue.quota_usage, history=history)), NOW)
    assert list(dict.fromkeys(read)) == asked
    assert decided == plan(queue, NOW)


def test_it_is_the_moment_that_the_reason_tells() -> None:
    asked = lab(10, MONTH, [job(1, 4)], (ago(48, 1, 8),))
    decided = plan(asked, NOW)
    assert "There will be enough at 00:00 UTC on 1 Dec" in decided.explanations[1].detail
    assert decided.estimates[1].at == DECEMBER


@given(seeds, st.booleans())
def test_it_starts_when_it_is_expected_to_and_not_before(seed: int, below: bool) -> None:
    """One who waits for nothing but GPU-hours, with any limits, history and running jobs."""
    asked = _generated(Random(seed), below)
    found = plan(asked, NOW)
    if found.starts:
        return
    (waits,) = asked.pending
    if waits.id not in found.estimates:
        empty = replace(asked, running=(), quota_usage=Usage(NOW, used={MONTH: {}, WEEK: {}}))
        assert not plan(empty, NOW).starts, "it could start some time"
        return
    at = found.estimates[waits.id].at
    assert plan(_as_of(asked, at + timedelta(seconds=3)), at + timedelta(seconds=3)).starts
    before = at - timedelta(seconds=3)
    assert before <= NOW or not plan(_as_of(asked, before), before).starts


def _generated(dice: Random, below: bool) -> Snapshot:
    """`below`: in a project under the one with most of the quotas."""
    mine = 2 if below else 1
    used = {
        (dice.choice([1, 2]), dice.choice([1, 2]), Band.BATCH): tuple(
            _slice(dice) for _ in range(dice.randint(1, 4))
        )
        for _ in range(3)
    }
    active = tuple(
        runs(50 + number, dice.randint(1, 3), dice.choice([1, 5, 100, 400]), project_id=mine)
        for number in range(dice.randint(0, 3))
    )
    queue = [job(1, dice.randint(1, 4), dice.choice([1, 6, 30]), project_id=mine)]
    told = told_at(NOW, Told(used, PROJECTS), (MONTH, WEEK))
    held = usage(queue, list(active))
    quotas = tuple(
        Quota(
            dice.choice([1, 1, mine]),
            Limits(gpu_hours=dice.choice([10, 60, 200, 500])),
            dice.choice(list(Scope)),
            period=dice.choice([MONTH, WEEK]),
        )
        for _ in range(dice.randint(1, 3))
    )
    return Snapshot(
        (node(1, 16, used={run.id: round(run.gpus) for run in active}),),
        tuple(queue),
        active,
        projects=PROJECTS,
        quotas=quotas,
        quota_usage=replace(held, used=told.used, history=told.history),
        policy=IN_ORDER,
    )


def _slice(dice: Random) -> Slice:
    return ago(dice.randint(30, 24 * 18), dice.randint(1, 30), dice.choice([1, 7, 40]))


def _as_of(asked: Snapshot, at: datetime) -> Snapshot:
    """If nothing else starts, and whoever runs takes the whole walltime."""
    usage_now = asked.quota_usage
    assert usage_now is not None
    used = dict(usage_now.history.by_key)
    for run in asked.running:
        lasts = min(run.ends_by, at) - NOW
        passed = Slice(NOW, NOW + lasts, run.gpus * lasts.total_seconds())
        key = run.project_id, run.user_id, run.band
        used[key] = (*used.get(key, ()), passed)
    told = told_at(at, Told(used, PROJECTS), (MONTH, WEEK))
    left = without(asked, [run.id for run in asked.running if run.ends_by <= at])
    assert left.quota_usage is not None
    return replace(
        left, quota_usage=replace(told, running=left.quota_usage.running, pending=usage_now.pending)
    )
