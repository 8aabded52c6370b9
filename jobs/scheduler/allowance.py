"""What limits let start, while the future is played forward: quotas, GPU-hours, arrays."""

from __future__ import annotations

from collections import defaultdict

from jobs.scheduler.hours import Hours
from jobs.scheduler.lines import Counted
from jobs.scheduler.quota import micros
from jobs.scheduler.tally import BORROWS, FITS, Tally

Limit = int | tuple[int]
"""By its number in the tally; that of an array: by the array."""


class Allowance:
    """Who runs, as far as limits count them."""

    def __init__(self, tally: Tally, now: float) -> None:
        self._tally = tally
        self._hours = Hours(tally, now)
        self._tasks: dict[int, int] = defaultdict(int)
        """Tasks of each array that run."""
        self._running: dict[int, tuple[float, Counted]] = {}
        """Since when, and how it is counted."""

    def starts(self, job_id: int, counted: Counted, now: float) -> None:
        """Somebody starts."""
        if counted.limits or counted.array is not None:
            self._tally.add(counted.group, counted.gpus, counted.gpu_seconds)
            self.runs(job_id, counted, now)

    def runs(self, job_id: int, counted: Counted, now: float) -> None:
        """Somebody runs whom the tally counts already."""
        self._running[job_id] = now, counted
        if counted.array is not None:
            self._tasks[counted.array] += 1
        if counted.gpus:
            until = now + counted.gpu_seconds / counted.gpus
            self._hours.starts(counted.group, job_id, now, until, counted.gpus)

    def ends(self, job_id: int, now: float) -> list[Limit]:
        """The limits that have more room now. What it has used of GPU-hours stays used."""
        if job_id not in self._running:
            return []
        began, (group, gpus, charge, array, limits, _) = self._running.pop(job_id)
        if gpus:
            self._hours.ends(group, job_id, now)
        self._tally.remove(group, gpus, max(0.0, charge - gpus * (now - began)))
        if array is None:
            return list(limits)
        self._tasks[array] -= 1
        return [*limits, (array,)]

    def reached(self, counted: Counted, now: float) -> Limit | None:
        """The limit that keeps such a job from starting."""
        if counted.array is not None and self._tasks[counted.array] >= counted.at_once:
            return (counted.array,)
        return self.exceeded(counted, now) if counted.limits else None

    def exceeded(self, counted: Counted, now: float) -> int | None:
        """The same, whatever its array does."""
        group, gpus, charge, *_ = counted
        found = self._tally.check(group, gpus, charge)
        while found not in (FITS, BORROWS) and self._hours.falls(group, found, now):
            found = self._tally.check(group, gpus, charge)
        return None if found in (FITS, BORROWS) else found

    def charge(self, counted: Counted) -> float:
        """The GPU-seconds, where they matter."""
        return counted.gpu_seconds if self._hours.are_limited(counted.group) else 0.0

    def room_at(self, limit: Limit, counted: Counted, now: float) -> float | None:
        """When a period will have let go of enough, if it is a limit on GPU-hours, and if that is
        known."""
        if not isinstance(limit, int) or not self._hours.are_limited(counted.group):
            return None
        return self._hours.room_at(counted.group, limit, micros(counted.gpu_seconds), now)
