"""Who may not be looked at yet: jobs that come after others, and tasks beyond an array's limit."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable

from jobs.scheduler.simulate.workload import Trial


class Gates:
    """Every job is let through once. Jobs that are not of the workload have ended long ago."""

    def __init__(self, trials: Iterable[Trial]) -> None:
        known = tuple(trials)
        self._open = {trial.id for trial in known}
        """Those that have not ended."""
        self._left = Counter(trial.array_id for trial in known if trial.array_id is not None)
        """By array, its tasks that have not ended."""
        self._after: dict[int, list[Trial]] = defaultdict(list)
        """By the job they wait for."""
        self._after_array: dict[int, list[Trial]] = defaultdict(list)
        """By the array they wait for."""
        self._missing: Counter[int] = Counter()
        """For how many other jobs, and arrays, a job waits."""
        self._through: Counter[int] = Counter()
        """By array, tasks that have been let through and have not ended."""
        self._line: dict[int, deque[Trial]] = defaultdict(deque)
        """By array, those of its tasks whose turn is later."""
        self.ready_s: dict[int, float] = {}
        """When each no longer waited for others to end; for its array's limit it may still."""

    def arrive(self, trial: Trial, now: float) -> list[Trial]:
        """It is submitted; who may be looked at from now on."""
        jobs = self._open.intersection(trial.after) - {trial.id}
        arrays = {array for array in trial.after_arrays if self._left[array]}
        for other in jobs:
            self._after[other].append(trial)
        for array in arrays:
            self._after_array[array].append(trial)
        self._missing[trial.id] = len(jobs) + len(arrays)
        return [] if jobs or arrays else self._ready(trial, now)

    def end(self, trial: Trial, now: float) -> list[Trial]:
        """It has ended; who may be looked at from now on."""
        self._open.discard(trial.id)
        found = self._next_task(trial)
        for other in self._awaiting(trial):
            self._missing[other.id] -= 1
            if not self._missing[other.id]:
                found += self._ready(other, now)
        return found

    def _awaiting(self, trial: Trial) -> list[Trial]:
        """Who waited for its end, or for that of the last task of its array."""
        found = self._after.pop(trial.id, [])
        if trial.array_id is not None:
            self._left[trial.array_id] -= 1
            if not self._left[trial.array_id]:
                found += self._after_array.pop(trial.array_id, [])
        return found

    def _ready(self, trial: Trial, now: float) -> list[Trial]:
        self.ready_s[trial.id] = now
        return self._enter(trial)

    def _enter(self, trial: Trial) -> list[Trial]:
        array = trial.array_id
        if array is None or trial.array_limit is None:
            return [trial]
        if self._through[array] >= trial.array_limit:
            self._line[array].append(trial)
            return []
        self._through[array] += 1
        return [trial]

    def _next_task(self, trial: Trial) -> list[Trial]:
        array = trial.array_id
        if array is None or trial.array_limit is None:
            return []
        self._through[array] -= 1
        return self._enter(self._line[array].popleft()) if self._line[array] else []
