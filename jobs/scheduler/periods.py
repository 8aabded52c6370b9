"""The periods that GPU-hours are for, and when one lets go of what was used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_NOISE = 1e-3
"""GPU-seconds: what adding and taking away floats may leave behind."""
_DAY_S = 86_400


@dataclass(frozen=True)
class CalendarMonth:
    """From the 1st of a month, 00:00 in a time zone as in `Europe/Berlin`."""

    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        ZoneInfo(self.time_zone)

    def begin(self, at: datetime) -> datetime:
        """When the month that `at` is in began."""
        zone = ZoneInfo(self.time_zone)
        local = at.astimezone(zone)
        return datetime(local.year, local.month, 1, tzinfo=zone).astimezone(UTC)

    def end(self, at: datetime) -> datetime:
        """When it ends, and what was used in it counts no more."""
        # 32 days after a 1st it is the next month, whatever the clocks do in between.
        return self.begin(self.begin(at) + timedelta(days=32))

    def __str__(self) -> str:
        return "in a calendar month"


@dataclass(frozen=True)
class Rolling:
    """The last so many times 24 hours, at any moment."""

    days: int

    def __post_init__(self) -> None:
        if self.days < 1:
            raise ValueError("a rolling period has at least one day")

    def begin(self, at: datetime) -> datetime:
        """What was used before this counts no more at `at`."""
        return at.astimezone(UTC) - timedelta(days=self.days)

    def __str__(self) -> str:
        return "in any 24 hours" if self.days == 1 else f"in any {self.days} days"


Period = CalendarMonth | Rolling


@dataclass(frozen=True)
class Slice:
    """So many GPU-seconds, used evenly from `begin` to `end`."""

    begin: datetime
    end: datetime
    gpu_seconds: float

    def __post_init__(self) -> None:
        if self.end.timestamp() <= self.begin.timestamp():
            raise ValueError("a slice of usage ends after it begins")


class Tail:
    """How much of what was used, or will be, lies after a moment. In seconds since the epoch."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        change: defaultdict[float, float] = defaultdict(float)
        for one in slices:
            begin, end = one.begin.timestamp(), one.end.timestamp()
            change[end] += one.gpu_seconds / (end - begin)
            change[begin] -= one.gpu_seconds / (end - begin)
        self._corners: list[tuple[float, float]] = []
        """Moments, latest first, each with what lies after it; between them it grows evenly."""
        after = rate = 0.0
        for moment in sorted(change, reverse=True):
            if self._corners:
                after += rate * (self._corners[-1][0] - moment)
            rate += change[moment]
            self._corners.append((moment, after))

    def falls_to(self, amount: float) -> float | None:
        """The earliest moment that has no more than `amount` after it; None: all have not."""
        end, less = 0.0, 0.0
        for begin, more in self._corners:
            if more > amount + _NOISE:
                return end - max(0.0, amount - less) / (more - less) * (end - begin)
            end, less = begin, more
        return None


def room_again(period: Period, tail: Tail, room: float, now: datetime) -> datetime | None:
    """When the period holds no more than `room` GPU-seconds of what `tail` tells of.

    What runs is taken to use its whole walltime. None where that is not known: a rolling period
    whose history is not told.
    """
    oldest = tail.falls_to(room)
    if isinstance(period, Rolling):
        if oldest is None or oldest + period.days * _DAY_S <= now.timestamp():
            return None
        return datetime.fromtimestamp(oldest + period.days * _DAY_S, UTC)
    month = period.end(now)
    while oldest is not None and month.timestamp() < oldest:
        month = period.end(month)
    return month
