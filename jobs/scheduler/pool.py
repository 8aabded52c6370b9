"""One partition while a plan is being made: its nodes, and where a request fits among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from jobs.scheduler.closures import Closure, closed
from jobs.scheduler.demand import counts, mask
from jobs.scheduler.fit import could_hold, narrowed
from jobs.scheduler.holds import HORIZON_S, NOW, Hold, Spans
from jobs.scheduler.levels import Levels
from jobs.scheduler.mix import Mix, on_each_node
from jobs.scheduler.openings import Moments
from jobs.scheduler.packing import Bools, Packing
from jobs.scheduler.room import Room
from jobs.scheduler.search import Search
from jobs.scheduler.shape import Promise, Shape
from jobs.scheduler.site import Choice, Rooms, Site, by_name, choose, placement
from jobs.scheduler.snapshot import Node, Pending, Placement
from jobs.scheduler.typical import Request
from jobs.spec import Resources

Models = frozenset[str] | None
"""Of GPUs; None: all."""
_SOMEBODY = -1
"""Holds a place while it is tried out."""

KEPT = 256
"""Of more classes of requests those are forgotten of whom nobody waits or runs."""


@dataclass(slots=True)
class Pool:
    """The rooms of one partition, by name, and what is promised of them."""

    rooms: Rooms
    closures: tuple[Closure, ...] = ()
    models: Callable[[Pending], Models] | None = None
    """Tells the GPU models that a job may use, where quotas limit them."""
    shapes: dict[tuple[Resources, frozenset[int], float, Models], Shape] = field(
        default_factory=dict
    )
    promises: dict[int, Promise] = field(default_factory=dict)
    """By job id, in the order in which they were given."""
    _soonest: dict[tuple[int, float], float] = field(init=False, default_factory=dict)
    """By class of requests and length: when there surely is room at the soonest, as long as
    nothing is given back; by 0 for whatever length."""
    mix: Callable[[], Mix] | None = None
    """Tells what its jobs ask for, when first something can start: a job of one node then goes
    where it leaves the most to those like them. Without, it goes where the fewest GPUs are free."""
    levels: Levels[Room] = field(init=False)
    _packing: Packing | None = field(init=False, default=None)
    _followed: int = field(init=False, default=0)
    """Which change of the nodes the packing was told of last."""
    _begun: bool = field(init=False, default=False)
    """The packing knows what is asked for in this pass."""

    def __post_init__(self) -> None:
        self.levels = Levels((room, room.free.bit_count()) for room in self.rooms)
        for room in self.rooms:
            room.levels = self.levels

    @classmethod
    def of(cls, nodes: Iterable[Node], closures: Iterable[Closure] = ()) -> Pool:
        return cls(sorted(map(Room, nodes), key=by_name), tuple(closures))

    def begin(self) -> None:
        """Another pass: what was promised in the last one, and found out, holds no more."""
        self._begun = False
        self._soonest.clear()
        if self.mix is not None and len(self.shapes) > KEPT:
            asked = self.mix()
            self.shapes = {
                about: found for about, found in self.shapes.items() if about[0] in asked
            }
        for promise in list(self.promises.values()):
            self.withdraw(promise.job_id)
        for shape in self.shapes.values():
            shape.fails_from = math.inf

    def shape(
        self,
        asked: Resources,
        allowed: frozenset[int] = frozenset(),
        most: float = math.inf,
        models: Models = None,
    ) -> Shape:
        """The class of this request, made when first asked for.

        `allowed`: the reservations of nodes that the job may use. `most`: as how many GPUs its
        part on a node may count. `models`: of the GPUs that it may use.
        """
        about = (asked, allowed, most, models)
        found = self.shapes.get(about)
        if found is None:
            found = self.shapes[about] = self._shape(
                asked, closed(self.closures, allowed), most, models
            )
        return found

    def _shape(
        self, asked: Resources, shut: dict[int, Spans], most: float, models: Models
    ) -> Shape:
        seen = {room.node.id: narrowed(room.node, models) for room in self.rooms}
        may = {
            node.id: counts(node, asked, most) for node in seen.values() if could_hold(node, asked)
        }
        able = [room for room in self.rooms if may.get(room.node.id)]
        if asked.exclusive:
            # It would get all GPUs of the node.
            able = [room for room in able if seen[room.node.id] is room.node]
        return Shape(
            asked=asked,
            able=able,
            ready=[room for room in able if not room.node.unavailable],
            masks={room.node.id: mask(room, asked, most, models) for room in able},
            levels=self.levels,
            promises=self.promises,
            counts={room.node.id: may[room.node.id] for room in able},
            closed=shut,
            models=models,
        )

    def has_room(self, asked: Resources) -> bool:
        """False: no request like this can start now. True: it may."""
        return self.levels.number(asked.gpus_per_node) >= asked.nodes

    def shape_of(self, job: Pending, most: float = math.inf) -> Shape:
        """That of a waiting job."""
        asked, models = job.resources, None
        if self.models and (asked.gpus_per_node or asked.shards or asked.exclusive):
            models = self.models(job)
        return self.shape(asked, job.reservations, most, models)

    def find(
        self,
        shape: Shape,
        length: float,
        now: float,
        elsewhere: bool = True,
        moving: bool = True,
    ) -> Site | None:
        """Where it fits best now, for so long that no promise is broken; None if it does not.

        A promise may be kept on other nodes than first foreseen, but never later; without `moving`
        only where it was. Without `elsewhere` only the place is looked at where it would be if
        nothing was promised.
        """
        if length >= shape.fails_from:
            return None
        until = now + length
        best = self._best(shape, until)
        if best is None:
            shape.fails_from = length if shape.closed else 0
            return None
        if all(shape.keeps(room, until) for room in best.rooms):
            return best.site(NOW, until)
        site = best.site(NOW, NOW)
        if moving and self._make_way(site, until):
            return site
        clear = None
        if elsewhere:
            beside = [room for room in shape.fitting(until) if shape.keeps(room, until)]
            clear = self._choose(shape, beside)
        if clear is None:
            shape.fails_from = length
            return None
        return clear.site(NOW, until)

    def _best(self, shape: Shape, until: float) -> Choice | None:
        """The nodes to take if nothing was promised."""
        packs = self._packs(shape.asked)
        if packs and self._begun and not shape.closed:
            return self._choose(shape, None)
        single = shape.asked.nodes == 1
        return self._choose(shape, shape.fitting(until, tightest=single and not packs))

    def _packs(self, asked: Resources) -> bool:
        """Whether its node is chosen by what is left to others."""
        return self.mix is not None and asked.nodes == 1 and not asked.exclusive

    def _choose(self, shape: Shape, fitting: Rooms | None) -> Choice | None:
        """Those to take of the nodes that fit; None stands for all of those."""
        asked, masks = shape.asked, shape.masks
        if not self._packs(asked):
            rooms = choose(asked, fitting or ())
            return Choice(asked, masks, rooms) if rooms else None
        if fitting == []:
            return None
        packing = self._packing_now()
        request, allowed = self._packed(packing, shape)
        if fitting is not None:
            allowed = packing.among(fitting)
        found = packing.choose(request, allowed) if request else None
        return Choice(asked, masks, [found[0]], found[1]) if found else None

    def _packing_now(self) -> Packing:
        """It knows what is left of each node, and what is asked for in this pass."""
        if self._packing is None:
            self._packing = Packing(self.rooms)
        packing = self._packing
        packing.follow(self.levels.changed_since(self._followed))
        self._followed = self.levels.changes
        if not self._begun and self.mix is not None:
            asked = on_each_node(self.mix(), max(len(room.gpus) for room in self.rooms))
            packing.expect(
                (self._packed(packing, self.shape(one))[0], number) for one, number in asked.items()
            )
            self._begun = True
        return packing

    def _packed(self, packing: Packing, shape: Shape) -> tuple[Request | None, Bools | None]:
        if shape.packed is None:
            request = packing.request(shape.asked, shape.able, shape.masks)
            shape.packed = request, packing.among(shape.ready)
        return shape.packed

    def start(self, job_id: int, site: Site, until: float) -> tuple[Placement, ...]:
        """Take it now; the first placement is rank 0."""
        for room, part in site:
            room.take(job_id, part, until)
        return tuple(placement(room, part) for room, part in site)

    def promise(
        self, job_id: int, shape: Shape, length: float, now: float, by: float = math.inf
    ) -> Promise | None:
        """Keep the first site free at which it surely fits; None if that cannot be known, or only
        later than `by`."""
        found = self.foresee(job_id, shape, length, now, by)
        if found is not None:
            self.give(found)
        return found

    def foresee(
        self, job_id: int, shape: Shape, length: float, now: float, by: float = math.inf
    ) -> Promise | None:
        """What `promise` would; nothing is kept."""
        search, by = Search(shape, length, now), min(by, now + HORIZON_S)
        at = search.first()
        while at < math.inf and at <= by:
            site = self._site_at(shape, at, length, search.opens)
            if site is not None:
                return Promise(job_id, shape, at, length, site)
            at = search.after(at)
        self._soonest[id(shape), length] = at
        return None

    def is_late(self, shape: Shape, length: float, by: float) -> bool:
        """Whether it is known without a search that it surely fits only after that, or that nobody
        can tell when."""
        if by == math.inf:
            return False
        if (id(shape), 0.0) not in self._soonest:
            self._soonest[id(shape), 0.0] = shape.enough(shape.openings.now())
        return any(self._soonest.get((id(shape), some), 0.0) > by for some in (0.0, length))

    def _site_at(
        self, shape: Shape, at: float, length: float, opens: Moments | None = None
    ) -> Site | None:
        """Where it fits then. What is free long before is left to those who can use it."""
        fitting = shape.fitting_at(at, at + length, opens)
        freed = {room.node.id: -room.freed_at(at) for room in fitting}
        chosen = choose(shape.asked, fitting, lambda room: (freed[room.node.id], *room.snugness()))
        if chosen is None:
            return None
        return Choice(shape.asked, shape.masks, chosen).site(at, at + length)

    def _make_way(self, site: Site, until: float) -> bool:
        """Keep the promises that stand in its way elsewhere, at their times, if that can be."""
        ids = {held.job_id for room, _ in site for held in room.booked if held.start < until}
        moved = [promise for job_id, promise in self.promises.items() if job_id in ids]
        for room, part in site:
            room.take(_SOMEBODY, part, until)
        for promise in moved:
            self.withdraw(promise.job_id)
        given: list[Promise] = []
        for promise in moved:
            new = self._site_at(promise.shape, promise.at, promise.length)
            if new is None:
                break
            given.append(Promise(promise.job_id, promise.shape, promise.at, promise.length, new))
            self.give(given[-1])
        if len(given) < len(moved):
            for promise in given:
                self.withdraw(promise.job_id)
            for promise in moved:
                self.give(promise)
        for room, _ in site:
            room.release(_SOMEBODY)
        return len(given) == len(moved)

    def restore(self, promises: Iterable[Promise]) -> None:
        """Those that were moved are where they were."""
        moved = [one for one in promises if self.promises[one.job_id] is not one]
        for promise in moved:
            self.withdraw(promise.job_id)
        for promise in moved:
            self.give(promise)

    def give(self, promise: Promise) -> None:
        """Keep it."""
        self.promises[promise.job_id] = promise
        for room, part in promise.site:
            room.booked.append(Hold(promise.job_id, promise.until, part, promise.at))

    def withdraw(self, job_id: int) -> Promise | None:
        """Keep it no longer; None if there is none."""
        self._soonest.clear()
        promise = self.promises.pop(job_id, None)
        for room, _ in promise.site if promise else ():
            room.booked = [held for held in room.booked if held.job_id != job_id]
        return promise
