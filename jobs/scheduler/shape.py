"""Where one class of requests fits, now and later, and what of that is promised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from jobs.scheduler.demand import fewest
from jobs.scheduler.holds import NOW, Spans, is_open
from jobs.scheduler.levels import Levels
from jobs.scheduler.openings import Moments, Openings
from jobs.scheduler.packing import Bools
from jobs.scheduler.room import Room
from jobs.scheduler.site import Rooms, Site
from jobs.scheduler.typical import Request
from jobs.spec import Resources


@dataclass(slots=True)
class Shape:
    """Equal requests are one class: what is found out about one holds for all."""

    asked: Resources
    able: Rooms
    """Nodes that could hold a part of it, by name, whether or not they take jobs now."""
    ready: Rooms
    """Those that take jobs."""
    masks: dict[int, int]
    """By node id: the GPUs there that may serve it."""
    levels: Levels[Room]
    promises: Mapping[int, Promise]
    """What is promised of the nodes, to anybody."""
    counts: dict[int, tuple[float, ...]]
    """By node id: as how many GPUs its part there may count, ascending."""
    closed: dict[int, Spans] = field(default_factory=dict)
    """By node id: when it is kept for others, or for nobody, with the margin before."""
    models: frozenset[str] | None = None
    """Of the GPUs that it may use, where quotas limit them; None: all."""
    fails_from: float = math.inf
    """The shortest time for which it is known not to fit now. A pass only takes things away, and
    what does not fit for an hour does not fit for longer."""

    packed: tuple[Request | None, Bools | None] | None = None
    """As `packing` knows it, and on which nodes at all."""

    openings: Openings = field(init=False)
    gpus: float = field(init=False)
    """As how many GPUs it counts at least, in all."""
    varies: bool = field(init=False)
    """It may count as more."""

    def __post_init__(self) -> None:
        self.openings = Openings(self.asked, self.ready, self.masks, self.levels)
        self.gpus = fewest(self.counts.values(), self.asked)
        self.varies = len({count for found in self.counts.values() for count in found}) > 1

    def fitting(self, until: float, tightest: bool = False) -> Rooms:
        """The nodes that can take its part now and keep it so long, whatever is promised.

        `tightest`: only those with the fewest free GPUs.
        """
        found: Rooms = []
        for level in self.levels.upwards(self.asked.gpus_per_node):
            found += [room for room in level if self._takes(room, until)]
            if found and tightest:
                break
        return found

    def _takes(self, room: Room, until: float) -> bool:
        node_id = room.node.id
        if node_id not in self.openings.places or not room.fits(self.asked, self.masks[node_id]):
            return False
        return not self.closed or is_open(self.closed.get(node_id, ()), -math.inf, until)

    def keeps(self, room: Room, until: float) -> bool:
        """Whether one of these nodes can do so beside what is promised."""
        return not room.booked or self.fits_at(room, NOW, until)

    def enough(self, opens: Moments, after: float | None = None) -> float:
        """The first moment, or the first after that, by which as many nodes have opened as it
        needs; infinity if there is none."""
        moments = np.sort(opens)[self.asked.nodes - 1 :]
        if after is not None:
            moments = moments[moments > after]
        return float(np.min(moments, initial=math.inf))

    def opens_after(self, place: int, after: float, length: float, now: float) -> float:
        """When a ready node first fits for so long later than that, at the latest, beside what is
        promised; infinity if that is not known."""
        room = self.ready[place]
        closed = self.closed.get(room.node.id, ())
        mask = self.masks[room.node.id]
        return room.earliest(self.asked, mask, length, now, closed, after)

    def fitting_at(self, start: float, until: float, opens: Moments | None = None) -> Rooms:
        """The nodes that can take its part then, beside what is promised.

        `opens`: when each does, as far as that is known already.
        """
        known = self.openings.now() if opens is None else opens
        particular = self.particular()
        return [
            self.ready[at]
            for at in np.flatnonzero(known <= start)
            if at not in particular or self.fits_at(self.ready[at], start, until)
        ]

    def particular(self) -> set[int]:
        """The ready nodes for which it matters for how long: promised, or closed at times."""
        places = self.openings.places
        booked = {r.node.id for promise in self.promises.values() for r, _ in promise.site}
        return {places[node_id] for node_id in (*booked, *self.closed) if node_id in places}

    def fits_at(self, room: Room, start: float, until: float) -> bool:
        """Whether one of these nodes can take its part then, beside what is promised."""
        node_id = room.node.id
        return room.fits_at(self.asked, self.masks[node_id], start, until) and (
            node_id not in self.closed or is_open(self.closed[node_id], start, until)
        )


@dataclass(frozen=True, slots=True)
class Promise:
    """From `at` on there is room for the job, if everybody keeps to the time limits."""

    job_id: int
    shape: Shape
    at: float
    length: float
    site: Site

    @property
    def until(self) -> float:
        return self.at + self.length
