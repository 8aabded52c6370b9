"""Months in their time zone, rolling days, and when there is room again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.scheduler.periods import CalendarMonth, Period, Rolling, Slice, Tail, room_again

BERLIN = CalendarMonth("Europe/Berlin")
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("at", "begin", "end"),
    [
        ("2026-11-21T12:00+00:00", "2026-10-31T23:00+00:00", "2026-11-30T23:00+00:00"),
        ("2026-10-31T23:00+00:00", "2026-10-31T23:00+00:00", "2026-11-30T23:00+00:00"),
        ("2026-10-31T22:59+00:00", "2026-09-30T22:00+00:00", "2026-10-31T23:00+00:00"),
        ("2027-02-28T12:00+00:00", "2027-01-31T23:00+00:00", "2027-02-28T23:00+00:00"),
        ("2026-12-31T23:30+00:00", "2026-12-31T23:00+00:00", "2027-01-31T23:00+00:00"),
    ],
)
def test_a_month_is_one_of_its_time_zone(at: str, begin: str, end: str) -> None:
    moment = datetime.fromisoformat(at)
    assert BERLIN.begin(moment) == datetime.fromisoformat(begin)
    assert BERLIN.end(moment) == datetime.fromisoformat(end)


def test_days_are_24_hours_also_when_clocks_change() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    after = datetime(2026, 10, 25, 12, 0, tzinfo=berlin)
    assert after.astimezone(UTC) - Rolling(1).begin(after) == 24 * HOUR


def test_periods_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="at least one day"):
        Rolling(0)
    with pytest.raises(ZoneInfoNotFoundError):
        CalendarMonth("Europe/Nowhere")
    with pytest.raises(ValueError, match="ends after it begins"):
        Slice(NOW, NOW, 1)


@pytest.mark.parametrize(
    ("period", "room", "expected"),
    [
        # 10 GPU-hours were used from 10 to 20 hours ago, evenly.
        (Rolling(1), 4 * 3600, NOW + 10 * HOUR),
        (Rolling(1), 0, NOW + 14 * HOUR),
        (BERLIN, 0, datetime(2026, 11, 30, 23, 0, tzinfo=UTC)),
    ],
)
def test_room_again(period: Period, room: float, expected: datetime) -> None:
    tail = Tail([Slice(NOW - 20 * HOUR, NOW - 10 * HOUR, 36_000)])
    assert room_again(period, tail, room, NOW) == expected


def test_what_runs_across_the_first_waits_for_the_month_that_has_room() -> None:
    days = timedelta(days=1)
    tail = Tail([Slice(NOW, NOW + 20 * days, 480 * 3600)])
    assert room_again(CalendarMonth(), tail, 480 * 3600, NOW) == datetime(2026, 12, 1, tzinfo=UTC)
    assert room_again(CalendarMonth(), tail, 0, NOW) == datetime(2027, 1, 1, tzinfo=UTC)


def test_a_rolling_period_without_history_tells_nothing() -> None:
    assert room_again(Rolling(30), Tail([]), 0, NOW) is None


slices = st.lists(
    st.tuples(st.integers(-100, 50), st.integers(1, 60), st.integers(1, 100)).map(
        lambda drawn: Slice(
            NOW + drawn[0] * HOUR, NOW + (drawn[0] + drawn[1]) * HOUR, drawn[2] * 3600.0
        )
    ),
    min_size=1,
    max_size=8,
)


def after(told: list[Slice], moment: float) -> float:
    """GPU-seconds after a moment."""
    total = 0.0
    for one in told:
        begin, end = one.begin.timestamp(), one.end.timestamp()
        total += one.gpu_seconds * max(0.0, end - max(begin, moment)) / (end - begin)
    return total


@given(slices, st.floats(0, 1))
def test_the_tail_falls_to_an_amount_then_and_no_earlier(told: list[Slice], part: float) -> None:
    amount = part * sum(one.gpu_seconds for one in told)
    found = Tail(told).falls_to(amount)
    if found is None:
        assert after(told, 0) == pytest.approx(amount, abs=0.01)
    else:
        assert after(told, found) == pytest.approx(amount, abs=0.01)
        assert after(told, found - 60) > amount


@given(slices, slices, st.floats(0, 0.99))
def test_what_is_taken_back_leaves_no_trace(
    stay: list[Slice], gone: list[Slice], part: float
) -> None:
    amount = part * sum(one.gpu_seconds for one in stay)
    back = [Slice(one.begin, one.end, -one.gpu_seconds) for one in gone]
    found = Tail([*gone, *stay, *back]).falls_to(amount)
    expected = Tail(stay).falls_to(amount)
    assert (found is None) == (expected is None)
    if found is not None:
        assert after(stay, found) == pytest.approx(amount, abs=0.01)
