"""The jobs that wait in one partition, so kept that a pass looks only at those that matter."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.pool import Pool, Shape
from jobs.scheduler.rank import Place, in_order, place
from jobs.scheduler.simulate.lengths import Kin
from jobs.scheduler.snapshot import Pending
from jobs.spec import Resources

_STEADY = frozenset({Order.SUBMISSION, Order.SHORTEST, Order.LEAST_SERVICE})
"""Orders in which two jobs never change places while they wait."""


class Queue:
    """In a steady order the jobs are kept sorted; in the others they are sorted for each pass."""

    def __init__(self, policy: Policy) -> None:
        self.jobs: dict[int, Pending] = {}
        self._policy = policy
        self._steady = policy.order in _STEADY
        self._place: Callable[[Pending], Place] = place(policy, {}, 0.0)
        self._line: list[tuple[Place, Pending]] = []
        self._numbers: dict[Resources, int] = {}
        """Equal requests are one class, and it has a number."""
        self._class: dict[int, int] = {}
        """By job id."""
        self._waiting: Counter[int] = Counter()
        """How many jobs of each class there are."""
        self._kin: dict[Kin, set[int]] = defaultdict(set)
        self._stirred: set[Kin] = set()

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, job: Pending, kin: Kin | None) -> None:
        """It waits from now on."""
        self.jobs[job.id] = job
        number = self._numbers.setdefault(job.resources, len(self._numbers))
        self._class[job.id] = number
        self._waiting[number] += 1
        if kin is not None:
            self._kin[kin].add(job.id)
        if self._steady:
            insort(self._line, (self._place(job), job))

    def pop(self, job_id: int, kin: Kin | None) -> Pending:
        """It waits no more."""
        job = self.jobs.pop(job_id)
        self._waiting[self._class.pop(job_id)] -= 1
        if kin is not None:
            self._kin[kin].discard(job_id)
        if self._steady:
            self._drop(job)
        return job

    def replace(self, job: Pending) -> None:
        """The same job, of which something else is known now."""
        if self._steady:
            self._drop(self.jobs[job.id])
            insort(self._line, (self._place(job), job))
        self.jobs[job.id] = job

    def _drop(self, job: Pending) -> None:
        del self._line[bisect_left(self._line, (self._place(job),))]

    def stir(self, kin: Kin) -> None:
        """From now on something else is expected of these."""
        self._stirred.add(kin)

    def stirred(self) -> list[int]:
        """Those of whom that is so since this was last asked."""
        found = sorted(chain.from_iterable(self._kin.get(kin, ()) for kin in self._stirred))
        self._stirred.clear()
        return found

    def fitting(self, pool: Pool) -> dict[int, Shape]:
        """The classes of which somebody waits and may start."""
        return {
            number: pool.shape(asked)
            for asked, number in self._numbers.items()
            if self._waiting[number] and pool.has_room(asked)
        }

    def full(self, pool: Pool, fitting: dict[int, Shape]) -> list[int]:
        """Those of the classes for which there is no room any more."""
        return [number for number, shape in fitting.items() if not pool.has_room(shape.asked)]

    def in_order(self, now: float, priority: dict[int, float]) -> Iterable[Pending]:
        """All of them, the first to be taken in front."""
        if self._steady:
            return (job for _, job in self._line)
        return in_order(self.jobs.values(), self._policy, priority, now)

    def deciding(
        self, now: float, priority: dict[int, float], fitting: dict[int, Shape]
    ) -> Iterator[Pending]:
        """Those of them without whom a pass would decide otherwise, as nobody can be preempted.

        Nobody starts whose class does not fit, or for so long; of those only the first matter,
        for what they are promised, or, where nothing may pass them, the very first, as the end of
        the walk. Classes that do not fit any more may be taken out of `fitting` on the way.
        """
        backfill = self._policy.backfill
        promises = 0 if backfill is Backfill.GREEDY else self._policy.reservations
        for job in self.in_order(now, priority):
            shape = fitting.get(self._class[job.id])
            if shape is not None and job.walltime_s < shape.fails_from:
                yield job
            elif backfill is Backfill.NONE or not fitting:
                return
            elif promises:
                promises -= 1
                yield job
