"""Days of the lab's time zone, which charges are divided by."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.utils import timezone


def begin(at: datetime) -> datetime:
    """When the day that `at` is in began."""
    local = timezone.localtime(at, timezone.get_default_timezone())
    return datetime(local.year, local.month, local.day, tzinfo=local.tzinfo).astimezone(UTC)


def end(at: datetime) -> datetime:
    """When it ends, and the next one begins."""
    # From a day's beginning 36 hours reach into the next one, whatever the clocks do.
    return begin(begin(at) + timedelta(hours=36))


def split(start: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """From one moment to another, by days."""
    while start < until:
        stop = min(end(start), until)
        yield start, stop
        start = stop
