"""The jobs that wait in one partition, so kept that a pass looks only at those that matter.

Jobs of the same people, of which the same is asked and expected, are a line: in every order the
one that came first is before the others. So only the first of each line has to be looked for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import heappop, heappush

from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.pool import Pool
from jobs.scheduler.rank import Place
from jobs.scheduler.shape import Shape
from jobs.scheduler.simulate.lengths import Kin, Lengths, Times, times
from jobs.scheduler.simulate.workload import Trial
from jobs.scheduler.snapshot import Pending

BY_LENGTH = frozenset({Order.SHORTEST, Order.LEAST_SERVICE})
"""Orders in which two jobs only change places when one has waited for too long."""
Sorting = Callable[[Pending], Place]


@dataclass(slots=True, eq=False)
class Kind:
    """Equal requests are one class."""

    shape: Shape
    waiting: int = 0
    """How many jobs of it there are."""


@dataclass(slots=True, eq=False)
class Line:
    """Jobs of which the same is known; the first that came is in front."""

    key: Hashable
    kind: Kind
    trial: Trial
    """One of them, for all."""
    times: Times
    done_s: float = 0.0
    """What each had done of its work before."""
    jobs: list[tuple[float, int, Pending]] = field(default_factory=list)
    """With when it came, and its id."""
    place: Place | None = None
    """That of the first, in a steady order."""

    def job(self, at: int) -> Pending:
        """One of them, with what is known now."""
        came, job_id, job = self.jobs[at]
        if (job.walltime_s, job.expected_s, job.typical_s) != self.times:
            job = replace(job, **self.times._asdict())
            self.jobs[at] = came, job_id, job
        return job


class Queue:
    """In a steady order the lines are kept sorted; in the others they are sorted for each pass."""

    def __init__(self, policy: Policy, pool: Pool, lengths: Lengths, place: Sorting) -> None:
        self._policy = policy
        self._pool = pool
        self._lengths = lengths
        unbounded = policy.order in BY_LENGTH and not policy.bounded
        self._place = place if unbounded or policy.order is Order.SUBMISSION else None
        self._kinds: dict[int, Kind] = {}
        """By class: the pool keeps those."""
        self._lines: dict[Hashable, Line] = {}
        self._places: dict[int, tuple[Line, float]] = {}
        """By job id: its line, and when it came."""
        self._kin: dict[Kin, dict[Line, None]] = defaultdict(dict)
        self._heads: list[tuple[Place, Line]] = []
        self._stirred: dict[Kin, None] = {}

    def __len__(self) -> int:
        return len(self._places)

    def jobs(self) -> Iterator[Pending]:
        """All of them, line by line."""
        for line in self._lines.values():
            yield from map(line.job, range(len(line.jobs)))

    def first(self) -> Iterator[Pending]:
        """Of each line the one that came first."""
        for line in self._lines.values():
            yield line.job(0)

    def add(self, job: Pending, trial: Trial, done_s: float = 0.0) -> None:
        """It waits from now on, to go on after `done_s` of its work."""
        key = (
            self._lengths.alike(trial), done_s, job.resources, job.band, job.association, job.nice,
            job.eligible_at, job.waited_before_s, job.claimed_at,
        )  # fmt: skip
        line = self._lines.get(key) or self._new_line(key, job, trial, done_s)
        came = job.submitted_at.timestamp()
        insort(line.jobs, (came, job.id, job))
        line.kind.waiting += 1
        self._places[job.id] = line, came
        self._settle(line)

    def _new_line(self, key: Hashable, job: Pending, trial: Trial, done_s: float) -> Line:
        shape = self._pool.shape_of(job)
        kind = self._kinds.get(id(shape))
        if kind is None:
            kind = self._kinds[id(shape)] = Kind(shape)
        line = self._lines[key] = Line(
            key, kind, trial, times(trial, self._lengths, done_s), done_s
        )
        kin = self._lengths.kin(trial)
        if kin is not None:
            self._kin[kin][line] = None
        return line

    def pop(self, job_id: int) -> Pending:
        """It waits no more."""
        line, came = self._places.pop(job_id)
        at = bisect_left(line.jobs, (came, job_id))
        job = line.job(at)
        del line.jobs[at]
        line.kind.waiting -= 1
        self._settle(line)
        if not line.jobs:
            del self._lines[line.key]
            kin = self._lengths.kin(line.trial)
            if kin is not None:
                del self._kin[kin][line]
            if not line.kind.waiting:
                del self._kinds[id(line.kind.shape)]
        return job

    def claim(self, job_id: int, at: datetime) -> None:
        """Others make room for it."""
        line = self._places[job_id][0]
        job = self.pop(job_id)
        self.add(replace(job, claimed_at=job.claimed_at or at), line.trial, line.done_s)

    def _settle(self, line: Line) -> None:
        """In a steady order the line goes where its first job belongs."""
        if self._place is None:
            return
        place = self._place(line.job(0)) if line.jobs else None
        if place != line.place:
            if line.place is not None:
                del self._heads[bisect_left(self._heads, (line.place,))]
            if place is not None:
                insort(self._heads, (place, line))
            line.place = place

    def stir(self, kin: Kin) -> None:
        """Something else may be expected of these from now on."""
        self._stirred[kin] = None

    def learn(self) -> None:
        """What is expected of those who wait may have changed since this was last asked."""
        for kin in self._stirred:
            for line in self._kin.get(kin, ()):
                line.times = times(line.trial, self._lengths, line.done_s)
                self._settle(line)
        self._stirred.clear()

    def fitting(self) -> set[Kind]:
        """The classes of which somebody waits and may start."""
        return {kind for kind in self._kinds.values() if kind.waiting and self.has_room(kind)}

    def has_room(self, kind: Kind) -> bool:
        """False: none of them can start now."""
        return self._pool.has_room(kind.shape.asked)

    def deciding(self, place: Sorting, fitting: set[Kind]) -> Iterator[Pending]:
        """Those of them without whom a pass would decide otherwise, as nobody can be preempted.

        In their order; `place` tells it where it is not steady. Nobody starts whose class does not
        fit, or for so long; of those only the first matter, for what they are promised, or, where
        nothing may pass them, the very first, as the end of the walk. Classes that do not fit any
        more may be taken out of `fitting` on the way.
        """
        backfill = self._policy.backfill
        promises = 0 if backfill is Backfill.GREEDY else self._policy.reservations
        walk = _Walk(self._sorted_heads(place), place)
        for line, at in walk:
            if line.kind in fitting and line.times.walltime_s < line.kind.shape.fails_from:
                yield line.job(at)
            elif backfill is Backfill.NONE or not fitting:
                return
            elif promises:
                promises -= 1
                yield line.job(at)
            else:
                continue  # Nor does anybody else of this line start.
            walk.go_on(line, at + 1)

    def _sorted_heads(self, place: Sorting) -> list[tuple[Place, Line]]:
        if self._place is not None:
            return self._heads
        heads = [(place(line.job(0)), line) for line in self._lines.values()]
        heads.sort()
        return heads


class _Walk:
    """From job to job in their order: the first of each line, and the next of those asked for."""

    def __init__(self, heads: Sequence[tuple[Place, Line]], place: Sorting) -> None:
        self._heads = heads
        self._place = place
        self._next = 0
        self._behind: list[tuple[Place, int, Line]] = []

    def __iter__(self) -> Iterator[tuple[Line, int]]:
        while self._next < len(self._heads) or self._behind:
            if self._next == len(self._heads) or (
                self._behind and self._behind[0][0] < self._heads[self._next][0]
            ):
                _, at, line = heappop(self._behind)
                yield line, at
            else:
                self._next += 1
                yield self._heads[self._next - 1][1], 0

    def go_on(self, line: Line, at: int) -> None:
        """Look at this one of the line, too, when its turn comes."""
        if at < len(line.jobs):
            heappush(self._behind, (self._place(line.job(at)), at, line))
