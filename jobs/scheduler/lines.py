"""Who waits in a forecast: equal requests in one line each, the lines of one shape in a kind."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import fsum, inf
from operator import attrgetter
from typing import NamedTuple

from jobs.scheduler.closures import NextClosed
from jobs.scheduler.holds import is_open
from jobs.scheduler.place import Place
from jobs.scheduler.shape import Shape
from jobs.scheduler.topology import compact


class Counted(NamedTuple):
    """How limits count a job."""

    group: int
    """That of the tally."""
    gpus: float
    gpu_seconds: float
    array: int | None = None
    """Where any task of it has a limit."""
    limits: tuple[int, ...] = ()
    """Those of quotas that may be in its way."""
    at_once: float = inf
    """How many tasks of its array may run at once, with it."""


@dataclass(frozen=True, slots=True)
class Coming:
    """A waiting job as forecasts see it."""

    id: int
    rank: int
    """Its place among all that wait."""
    partition: str
    shape: Shape
    counted: Counted
    limit_s: float
    """How long it may run."""
    ready_at: float = -inf
    """It does not start before."""
    by: float = inf
    """Nor later."""
    takes: bool = True
    """False: it is only asked when it could start, and is in nobody's way."""


class Waits(NamedTuple):
    """A job in its line; the first sorts first."""

    rank: int
    runs_s: float
    """How long it is expected to run."""
    job: Coming


@dataclass(slots=True)
class _Gate:
    """Jobs that wait for the same others to end."""

    left: int
    """How many of these have not."""
    waits: list[Waits] = field(default_factory=list)


class Gates:
    """Who waits for others to end."""

    def __init__(self) -> None:
        self._gates: dict[frozenset[int], _Gate] = {}
        """By whom they wait for: whole arrays wait for the same."""
        self._awaited_by: dict[int, list[_Gate]] = defaultdict(list)
        self._again: dict[int, Waits] = {}
        """Those that run now and wait again later."""

    def wait(self, waits: Waits, after: frozenset[int]) -> None:
        """For all of these."""
        if waits.job.id in after:
            self._again[waits.job.id] = waits
            return
        gate = self._gates.get(after)
        if gate is None:
            gate = self._gates[after] = _Gate(len(after))
            for other in after:
                self._awaited_by[other].append(gate)
        gate.waits.append(waits)

    def let_through(self, job_id: int) -> list[Waits]:
        """Who waited for its end, and now for nobody's. If it waits again itself, the others do
        for its next one."""
        again = self._again.pop(job_id, None)
        if again is not None:
            return [again]
        gates = self._awaited_by.pop(job_id, ())
        for gate in gates:
            gate.left -= 1
        return [waits for gate in gates if not gate.left for waits in gate.waits]


NOBODY = -1
"""As a rank."""


class Line:
    """Who competes for the same quota with the same request; the first in front."""

    __slots__ = ("asking", "jobs", "kind", "parked")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.jobs: list[Waits] = []
        """A heap."""
        self.asking: list[Waits] = []
        """Those behind all of these who take nothing."""
        self.parked = False
        """A quota holds it up."""


class Kind:
    """All lines of one shape in one partition, and the places where it fits at the moment."""

    __slots__ = (
        "asked", "bit", "closed", "counts", "fitting", "key", "lines", "masks", "next_closed",
        "number", "opens", "partition", "seen", "stands", "switches",
    )  # fmt: skip

    def __init__(self, shape: Shape, partition: str, bit: int) -> None:
        self.partition = partition
        self.bit = bit
        """Stands for it in sets."""
        self.asked = asked = shape.asked
        self.closed = shape.closed
        self.next_closed = NextClosed(shape.closed)
        self.number = asked.nodes
        self.switches = asked.max_switches if asked.nodes > 1 else None
        self.counts = shape.counts if shape.varies else None
        """Where it does not count the same everywhere."""
        self.key: Callable[[Place], tuple[object, ...]] = self._cheapest
        if self.counts is None:
            self.key = attrgetter("snugness")
        ready = {room.node.id for room in shape.ready}
        self.masks = {node_id: mask for node_id, mask in shape.masks.items() if node_id in ready}
        self.lines: list[tuple[int, Line]] = []
        """Those that no quota holds up, by their first ranks."""
        self.stands = NOBODY
        """The rank by which the backlog has it."""
        self.fitting: dict[int, Place] = {}
        self.opens: dict[Place, float] = {}
        """When each place fits, as it was known after so many changes:"""
        self.seen = 0

    @property
    def first(self) -> Waits:
        """The first of all of its lines."""
        return self.lines[0][1].jobs[0]

    def join(self, line: Line, waits: Waits) -> None:
        """One more in a line."""
        if line.parked or (line.jobs and line.jobs[0] < waits):
            heapq.heappush(line.jobs, waits)
            return
        if line.jobs:
            self.withdraw(line)
        heapq.heappush(line.jobs, waits)
        self.show(line)

    def pop(self, line: Line) -> None:
        """The first of a line is gone."""
        lines, gone = self.lines, heapq.heappop(line.jobs)
        del lines[bisect_left(lines, (gone[0],))]
        if line.jobs:
            insort(lines, (line.jobs[0][0], line))

    def show(self, line: Line) -> None:
        """It may be served."""
        insort(self.lines, (line.jobs[0].rank, line))

    def withdraw(self, line: Line) -> None:
        """It may not be served at the moment."""
        del self.lines[bisect_left(self.lines, (line.jobs[0].rank,))]

    def is_open(self, place: Place, start: float, until: float) -> bool:
        """Whether the place is kept for nobody else meanwhile."""
        return is_open(self.closed.get(place.node_id, ()), start, until)

    def open_for(self, limit_s: float, now: float) -> list[Place]:
        """Where there is room now, on places that are not reserved before such a limit is over."""
        if not self.closed:
            return list(self.fitting.values())
        until, begins = now + limit_s, self.next_closed.after(now)
        return [one for at, one in self.fitting.items() if begins.get(at, inf) >= until]

    def is_near(self) -> bool:
        """Whether enough of the places where it fits are near each other."""
        return self.switches is None or self.choose(list(self.fitting.values())) is not None

    def choose(self, places: Sequence[Place]) -> Sequence[Place] | None:
        """The tightest of these, as many as it needs; None if they do not do."""
        if len(places) < self.number:
            return None
        if self.switches is not None:
            return compact(places, self.number, self.key, self.switches)
        if len(places) == self.number:
            return places
        if self.number == 1:
            return (min(places, key=self.key),)
        return sorted(places, key=self.key)[: self.number]

    def _cheapest(self, place: Place) -> tuple[object, ...]:
        assert self.counts is not None
        return self.counts[place.node_id][0], *place.snugness

    def counted(self, job: Coming, places: Iterable[Place]) -> Counted:
        """How limits count a job of it there, where that is not the same everywhere."""
        assert self.counts is not None
        gpus = fsum(self.counts[place.node_id][0] for place in places)
        return job.counted._replace(gpus=gpus, gpu_seconds=gpus * job.limit_s)

    def foresee(self, changed: Iterable[Place], now: float) -> tuple[float, frozenset[Place]]:
        """When there is room for its first job, and the places that is going to use; these have
        changed since it was last asked.

        What is free long before is left to those who can use it meanwhile.
        """
        for place in changed:
            mask = self.masks.get(place.node_id)
            if mask is not None:
                self.opens[place] = place.opens(self.asked, mask)
        limit_s = self.first.job.limit_s
        for moment in self._moments(now):
            if moment == inf:
                break
            late = [(-at, one.order, one) for one, at in self.opens.items() if at <= moment]
            late.sort()
            there: Iterable[Place] = (place for *_, place in late)
            if self.closed:
                until = moment + limit_s
                there = (one for one in there if self.is_open(one, moment, until))
            if self.switches is None:
                chosen = list(islice(there, self.number))
            else:
                chosen = compact(list(there), self.number, _as_given, self.switches) or []
            if len(chosen) == self.number:
                return moment, frozenset(chosen)
        return inf, frozenset()

    def _moments(self, now: float) -> Iterable[float]:
        """When enough places may be open for the first time, or again after a reservation."""
        opens = sorted(self.opens.values())[self.number - 1 :]
        if not self.closed or not opens:
            return dict.fromkeys(opens)
        ends = (end for spans in self.closed.values() for _, end in spans if end > opens[0])
        return sorted({max(at, now) for at in (*opens, *ends)})


def _as_given(_: Place) -> int:
    return 0
