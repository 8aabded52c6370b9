"""Clocks that are set forward or back change what is told, and nothing of what is decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.directives.formats import moment
from jobs.rules import SpecError, check_times
from jobs.scheduler.plan import expect, plan
from jobs.scheduler.snapshot import Pending, Plan, Snapshot
from jobs.scheduler.waits import misses_deadline
from jobs.scheduler.words import latest
from jobs.spec import Resources
from tests.jobs.scheduler.clusters import NOW
from tests.jobs.scheduler.generated import snapshots

BERLIN = ZoneInfo("Europe/Berlin")
SPRING = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
"""From 2:00 to 3:00."""
AUTUMN = datetime(2026, 10, 25, 1, 0, tzinfo=UTC)
"""From 3:00 to 2:00."""
near = st.builds(
    lambda change, minutes: change + timedelta(minutes=minutes),
    st.sampled_from([SPRING, AUTUMN]),
    st.integers(-700, 90),
)


def every(value: Any, change: Callable[[datetime], Any]) -> Any:
    """The same with all times in it changed."""
    if isinstance(value, datetime):
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        of = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
        new = {name: every(part, change) for name, part in of.items()}
        return replace(value, **{name: new[name] for name in of if new[name] is not of[name]})
    if type(value) is tuple:
        return tuple(every(part, change) for part in value)
    if isinstance(value, Mapping):
        return {key: every(part, change) for key, part in value.items()}
    return value


def decided(made: Plan) -> tuple[Any, ...]:
    """All of it but how it is told."""
    reasons = {pk: why.reason for pk, why in made.explanations.items()}
    when = {pk: every((at.at, at.early, at.late), utc) for pk, at in made.estimates.items()}
    return made.starts, made.expired, made.preempted, reasons, when


def utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


def berlin(at: datetime) -> datetime:
    return at.astimezone(BERLIN)


@settings(deadline=None)
@given(snapshots(), near)
def test_equal_moments_give_equal_plans_in_any_zone(snapshot: Snapshot, now: datetime) -> None:
    there = every(snapshot, lambda at: utc(at) + (now - NOW))
    local = every(there, berlin)
    told = decided(plan(there, now))
    assert decided(plan(there, berlin(now))) == told
    assert decided(plan(local, berlin(now))) == told
    assert expect(local, berlin(now)) == expect(there, now)


@pytest.mark.parametrize(("change", "night"), [(SPRING, "29 Mar"), (AUTUMN, "25 Oct")])
@pytest.mark.parametrize(("left_h", "misses"), [(9.5, True), (10, False), (10.5, False)])
def test_a_night_is_as_long_as_it_is(
    change: datetime, night: str, left_h: float, misses: bool
) -> None:
    now = berlin(change - timedelta(hours=5))
    assert latest(change, now).endswith(f"on {night}")
    asked, end = Resources(gpus_per_node=1), utc(now) + timedelta(hours=left_h)
    for deadline in (end, berlin(end)):
        job = Pending(1, now, asked, 36_000, "gpu", deadline_at=deadline)
        assert misses_deadline(job, now) is misses
        try:
            check_times(now, deadline, 36_000)
        except SpecError:
            assert misses
        else:
            assert not misses


def test_what_is_asked_from_now_on_is_counted_in_hours_that_pass() -> None:
    for change in (SPRING, AUTUMN):
        now = berlin(change - timedelta(hours=5))
        found = moment("now+10hours", now)
        assert (utc(found) - utc(now), found.tzinfo) == (timedelta(hours=10), BERLIN)
        assert moment("tomorrow", now).hour == 0


def test_the_end_of_a_minute_that_comes_twice() -> None:
    before = berlin(AUTUMN - timedelta(seconds=30))
    assert latest(before, before) == "02:00 CET"
