"""What a job waits for that has nothing to do with the others in the queue."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property

from jobs.scheduler import explain
from jobs.scheduler.snapshot import DependencyState, Explanation, Pending, Running, Snapshot


def misses_deadline(job: Pending, now: datetime) -> bool:
    """Whether the job, started as early as it may, could run past its deadline."""
    begin = job.begin_at.timestamp() if job.begin_at else -math.inf
    return max(now.timestamp(), begin) > job.starts_by


def own_waits(job: Pending, others: Others, arrays: Arrays, now: datetime) -> list[Explanation]:
    """All for which it could not start on an empty cluster either."""
    found = []
    if job.unreadable:
        found.append(explain.unreadable(job.unreadable))
    if job.held:
        found.append(explain.held(job))
    if job.dependency is DependencyState.NEVER:
        found.append(explain.dependency_never(others.awaited(job)))
    if job.dependency is DependencyState.WAITING:
        found.append(explain.dependency(others.awaited(job), others.ends_of(job), now))
    if job.begin_at is not None and job.begin_at.timestamp() > now.timestamp():
        found.append(explain.begin_time(job.begin_at, now))
    if job.array_limit is not None and arrays.taken(job.array_id) >= job.array_limit:
        found.append(arrays.excuse(job.array_id, job.array_limit, now))
    return found


class Others:
    """The jobs that jobs wait for, and when they end. By its id an array is meant as a whole,
    which is how a dependency names it; but a task that waits for its like waits for the first task
    of its own array, which has the same."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._jobs: tuple[Pending | Running, ...] = (*snapshot.pending, *snapshot.running)
        self._tasks_end = {job.id: job.ends_by.astimezone(UTC) for job in snapshot.running}
        self.ends = dict(self._tasks_end)
        """Those whose end is known, at the latest then."""
        for job in snapshot.running:
            if job.array_id is not None:
                own = self.ends[job.id]
                self.ends[job.array_id] = max(self.ends.get(job.array_id, own), own)
        for waiting in snapshot.pending:
            if waiting.array_id is not None:
                self.ends.pop(waiting.array_id, None)

    @cached_property
    def _labels(self) -> dict[int, str]:
        return {job.id: job.label for job in self._jobs}

    @cached_property
    def _arrays(self) -> set[int | None]:
        return {job.array_id for job in self._jobs}

    def holding(self, ids: Iterable[int]) -> list[str]:
        """Jobs themselves: by an array's id that task of it which has the same."""
        return [self._labels.get(job_id, str(job_id)) for job_id in sorted(ids)]

    def awaited(self, job: Pending) -> list[str]:
        """Whom it waits for."""
        arrays = self._arrays - {job.array_id}
        return [
            str(job_id) if job_id in arrays else self._labels.get(job_id, str(job_id))
            for job_id in sorted(job.waits_for)
        ]

    def ends_of(self, job: Pending) -> list[datetime | None]:
        """When those end that it waits for; None where that is not known."""
        return [
            (self._tasks_end if job_id == job.array_id else self.ends).get(job_id)
            for job_id in job.waits_for
        ]


class Arrays:
    """How many tasks of each array run, those included that this plan starts, and how many are
    promised a time."""

    def __init__(self, running: Iterable[Running]) -> None:
        self._ends: dict[int, list[datetime]] = defaultdict(list)
        self._promised: Counter[int] = Counter()
        for job in running:
            self.add(job.array_id, job.ends_by)

    def add(self, array_id: int | None, ends_by: datetime) -> None:
        if array_id is not None:
            self._ends[array_id].append(ends_by.astimezone(UTC))

    def promise(self, array_id: int) -> None:
        """A task is going to start before any behind it."""
        self._promised[array_id] += 1

    def taken(self, array_id: int | None) -> int:
        """How many run, or come next."""
        return self._running(array_id) + self._promised[array_id] if array_id is not None else 0

    def excuse(self, array_id: int | None, limit: int, now: datetime) -> Explanation:
        """What the others are told, who may not run beside them."""
        ends = self._ends.get(array_id, ()) if array_id is not None else ()
        if len(ends) < limit:
            return explain.array_turn(limit, len(ends))
        return explain.array_limit(limit, min(ends, default=None), now)

    def _running(self, array_id: int) -> int:
        return len(self._ends.get(array_id, ()))
