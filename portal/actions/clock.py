"""The clocks of an action that waits for a node: ours, and the node's, which may be hours off."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from jobs.rules import LAST_YEAR


class Clock:
    """Starts at `now` and goes on by a clock that nobody sets."""

    def __init__(self, now: datetime) -> None:
        self._start = now
        self._began = time.monotonic()

    @property
    def now(self) -> datetime:
        """The present moment."""
        return self._start + timedelta(seconds=time.monotonic() - self._began)


class Times:
    """A node's times as ours: its clock showed `at` (Unix seconds) when it was `now` here."""

    def __init__(self, at: float, now: datetime) -> None:
        self._at = at
        self.now = now

    def ours(self, moment: float | None) -> datetime | None:
        """That moment on our clock; None for none, and for a time no calendar has."""
        if moment is None:
            return None
        try:
            found = (self.now + timedelta(seconds=moment - self._at)).astimezone(UTC)
        except (OverflowError, ValueError):
            return None
        # Anybody may give a file any time; in the calendar's last hours no other zone has one.
        return found if 1900 <= found.year <= LAST_YEAR else None
