"""The time that use is looked at in, as the URL says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.conf import settings
from django.utils import timezone

from jobs.scheduler.periods import CalendarMonth
from portal.queries import days

RANGE = "range"
CHOICES = (
    ("", "This month"),
    ("last-month", "Last month"),
    ("7d", "Last 7 days"),
    ("30d", "Last 30 days"),
    (RANGE, "From day to day"),
)
EARLIEST = date(2000, 1, 1)
"""No lab's ledger is older, and time zones can be applied to it."""


@dataclass(frozen=True)
class Span:
    """From one moment to another; `first` and `last` are the days that were asked for, if any."""

    period: str
    since: datetime
    until: datetime
    first: str = ""
    last: str = ""
    problems: tuple[str, ...] = ()

    @classmethod
    def read(cls, query: Mapping[str, str], now: datetime) -> Span:
        """What cannot be understood is told in `problems`, and this month is looked at."""
        first, last = (query.get(name, "").strip() for name in ("from", "to"))
        period = query.get("period", RANGE if first or last else "").strip()
        if period not in dict(CHOICES):
            return _month(now, f"There is no period {period[:40]!r}; this month is shown.")
        if period != RANGE:
            return _named(period, now)
        try:
            return _range(first, last, now)
        except ValueError as error:
            return _month(now, f"{error} This month is shown.")

    @property
    def parameters(self) -> dict[str, str]:
        """For a URL; this month needs none."""
        named = {"period": self.period, "from": self.first, "to": self.last}
        return {name: value for name, value in named.items() if value}


def _month(now: datetime, *problems: str) -> Span:
    return Span("", CalendarMonth(settings.TIME_ZONE).begin(now), now, problems=problems)


def _named(period: str, now: datetime) -> Span:
    month = _month(now)
    if period == "last-month":
        begin = CalendarMonth(settings.TIME_ZONE).begin(month.since - timedelta(seconds=1))
        return Span(period, begin, month.since)
    if period:
        return Span(period, now - timedelta(days=int(period[:-1])), now)
    return month


def _range(first: str, last: str, now: datetime) -> Span:
    today = timezone.localtime(now, timezone.get_default_timezone()).date()
    start = _day(first, "The first day") if first else today.replace(day=1)
    end = _day(last, "The last day") if last else today
    if end < start:
        raise ValueError(f"The last day, {end}, is before the first one, {start}.")
    if start > today:
        raise ValueError(f"Nothing is known yet of {start}.")
    until = now if end >= today else days.end(_begin(end))
    return Span(RANGE, _begin(start), until, start.isoformat(), end.isoformat())


def _day(text: str, which: str) -> date:
    try:
        found = date.fromisoformat(text)
    except ValueError as error:
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise ValueError(f"{which}, {shown!r}, should be as 2026-11-03.") from error
    if not EARLIEST <= found < date.max - timedelta(days=3):
        raise ValueError(f"{which}, {found}, is out of reach.")
    return found


def _begin(day: date) -> datetime:
    zone = timezone.get_default_timezone()
    return days.begin(datetime(day.year, day.month, day.day, 12, tzinfo=zone))
