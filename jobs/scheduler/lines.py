"""The queue of a partition as a forecast sees it: equal requests in one line each."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
    array: tuple[int, int] | None = None
    """Its array, and how many tasks of it may run at once."""


@dataclass(slots=True)
class Coming:
    """A waiting job as the forecast sees it."""

    id: int
    rank: int
    """Its place among all that wait."""
    partition: str
    shape: Shape
    counted: Counted
    runs_s: float
    """How long it is expected to run."""
    limit_s: float
    """How long it may."""
    ready_at: float = -math.inf
    """It does not start before."""
    after: int = 0
    """How many jobs have to end first."""

    def __lt__(self, other: Coming) -> bool:
        return self.rank < other.rank


@dataclass(slots=True, eq=False)
class Line:
    """Who competes for the same quota with the same request; the first in front."""

    kind: Kind
    partition: str
    jobs: list[Coming] = field(default_factory=list)
    parked: bool = False

    def __lt__(self, other: Line) -> bool:
        return self.jobs[0].rank < other.jobs[0].rank


class Kind:
    """All lines of one shape in one partition, and the places where it fits at the moment."""

    __slots__ = (
        "closed", "cpus", "fitting", "gpus", "held", "lines", "masks", "memory_mib", "number",
        "shape", "switches",
    )  # fmt: skip

    def __init__(self, shape: Shape, places: Mapping[int, Place], now: float) -> None:
        self.shape = shape
        asked = shape.asked
        self.closed = shape.closed
        self.number = asked.nodes
        self.switches = asked.max_switches if asked.nodes > 1 else None
        self.gpus = asked.gpus_per_node
        self.cpus = asked.cpus
        self.memory_mib = asked.memory_mib or 0
        ready = {room.node.id for room in shape.ready}
        self.masks = {node_id: mask for node_id, mask in shape.masks.items() if node_id in ready}
        self.lines: list[Line] = []
        """A heap of those that no quota holds up."""
        self.held = False
        """It would be in the way of who is blocked, until more is freed."""
        self.fitting: dict[int, Place] = {}
        for node_id in self.masks:
            self.look(places[node_id], now)

    def is_open(self, place: Place, start: float, until: float) -> bool:
        """Whether the place is kept for nobody else meanwhile."""
        return is_open(self.closed.get(place.node_id, ()), start, until)

    def fits(self) -> bool:
        """Whether there is room for one now."""
        if self.switches is None or len(self.fitting) < self.number:
            return len(self.fitting) >= self.number
        return self.choose(list(self.fitting.values())) is not None

    def choose(self, places: Sequence[Place]) -> Sequence[Place] | None:
        """The tightest of these, as many as it needs; None if they do not do."""
        if len(places) < self.number:
            return None
        if self.switches is not None:
            return compact(places, self.number, self._key, self.switches)
        if len(places) == self.number:
            return places
        return heapq.nsmallest(self.number, places, key=self._key)

    def _key(self, place: Place) -> tuple[object, ...]:
        if self.shape.varies:
            return self.shape.counts[place.node_id][0], *place.snugness()
        return place.snugness()

    def counted(self, job: Coming, places: Iterable[Place]) -> Counted:
        """How limits count a job of it there."""
        found = job.counted
        if not self.shape.varies:
            return found
        gpus = math.fsum(self.shape.counts[place.node_id][0] for place in places)
        return found._replace(gpus=gpus, gpu_seconds=gpus * job.limit_s)

    def look(self, place: Place, now: float) -> None:
        """The place has changed, or for whom it is kept."""
        mask = self.masks.get(place.node_id)
        if mask is None:
            return
        if (
            (place.free & mask).bit_count() >= self.gpus
            and place.cpus >= self.cpus
            and (not self.memory_mib or place.memory_mib >= self.memory_mib)
            and not place.alone
            and (not self.shape.asked.shards or place.part(self.shape.asked, mask) is not None)
            and not (self.shape.asked.exclusive and place.holds)
            and (not self.closed or self.is_open(place, now, now + 1))
        ):
            self.fitting[place.node_id] = place
        else:
            self.fitting.pop(place.node_id, None)


class Queue:
    """One partition: its kinds, and who is blocked."""

    def __init__(self) -> None:
        self.kinds: dict[int, Kind] = {}
        self.blocked: Coming | None = None
        self.at = -math.inf
        """When who is blocked is going to start."""
        self.kept: frozenset[int] = frozenset()
        """The nodes it is going to use."""

    def freed(self, place: Place, now: float) -> None:
        """It may fit more than before."""
        node_id = place.node_id
        for kind in self.kinds.values():
            if node_id not in kind.fitting:
                kind.look(place, now)
            if kind.held and node_id in kind.fitting:
                kind.held = False

    def taken(self, place: Place, now: float) -> None:
        """It may fit less."""
        for kind in self.kinds.values():
            if place.node_id in kind.fitting:
                kind.look(place, now)

    def block(self, kind: Kind, places: Mapping[int, Place], now: float) -> None:
        """The first of this kind does not fit: foresee where it will, unless that is known."""
        job = kind.lines[0].jobs[0]
        if job is self.blocked and self.at > now:
            return
        self.blocked = job
        first = [(places[node_id].fits_from(kind.shape), places[node_id]) for node_id in kind.masks]
        self.at, self.kept = _foreseen(kind, first)


def _foreseen(kind: Kind, first: Sequence[tuple[float, Place]]) -> tuple[float, frozenset[int]]:
    """When there is room for the kind, by when each place has; and the nodes it is going to use.

    What is free long before is left to those who can use it meanwhile.
    """
    moments = sorted(at for at, _ in first if at < math.inf)[kind.number - 1 :]
    for moment in dict.fromkeys(moments):
        late = sorted((-at, one.room.order, one.node_id, one) for at, one in first if at <= moment)
        chosen: list[Place] | None = [place for *_, place in late[: kind.number]]
        if kind.switches is not None:
            there = [place for *_, place in late]
            chosen = compact(there, kind.number, _as_given, kind.switches)
        if chosen is not None:
            return moment, frozenset(place.node_id for place in chosen)
    return math.inf, frozenset()


def _as_given(_: Place) -> int:
    return 0
