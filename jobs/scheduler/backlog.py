"""The queue of a partition as a forecast sees it: what fits where, who is next, who is blocked.

Sets of kinds are the bits of an integer, so that what changes on a node is told to all of them at
once.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable
from math import inf

from jobs.scheduler.holds import Spans, is_open
from jobs.scheduler.lines import NOBODY, Kind, Line, Waits
from jobs.scheduler.place import Place
from jobs.scheduler.shape import Shape
from jobs.scheduler.steps import Steps


class Backlog:
    """One partition: its kinds, and who is blocked."""

    def __init__(self, name: str, places: Iterable[Place]) -> None:
        self.name = name
        self.held = 0
        """Kinds that would be in the way of who is blocked, until more is freed."""
        self.blocked = NOBODY
        """The rank of who is."""
        self.at = -inf
        """When it is going to start."""
        self.kept: frozenset[Place] = frozenset()
        """The nodes it is going to use."""
        self.waiting: list[tuple[int, Kind]] = []
        """The kinds of which somebody may be served, by their first ranks."""
        self._places = tuple(places)
        self._kinds: dict[int, Kind] = {}
        """By bit."""
        self._of: dict[int, Kind] = {}
        """By the identity of the shape."""
        self._wait = 0
        """Those in `waiting`."""
        self._fit = 0
        """Those that fit on enough nodes."""
        self._changed: list[Place] = []
        """The nodes that changed, in that order."""
        self._cpus = self._memory = Steps(())
        self._alone = 0
        """Those that want empty nodes."""
        self._parts = 0
        """Those that want parts of GPUs."""
        self._near = 0
        """Those that need nodes near each other."""

    def kind(self, shape: Shape) -> Kind:
        """That of a shape. All have to be known before `begin`."""
        found = self._of.get(id(shape))
        if found is None:
            bit = 1 << len(self._kinds)
            found = self._of[id(shape)] = self._kinds[bit] = Kind(shape, self.name, bit)
        return found

    def begin(self, now: float) -> None:
        """Look for each kind where it fits."""
        kinds = self._kinds.values()
        self._cpus = Steps((kind.asked.cpus, kind.bit) for kind in kinds)
        # Who asks for no memory fits also where there is less than none.
        self._memory = Steps((kind.asked.memory_mib or -inf, kind.bit) for kind in kinds)
        self._alone = sum(kind.bit for kind in kinds if kind.asked.exclusive)
        self._parts = sum(kind.bit for kind in kinds if kind.asked.shards)
        self._near = sum(kind.bit for kind in kinds if kind.switches is not None)
        for place in self._places:
            able: dict[int, list[tuple[float, int]]] = defaultdict(list)
            for kind in kinds:
                if place.node_id in kind.masks:
                    able[kind.masks[place.node_id]].append((kind.asked.gpus_per_node, kind.bit))
            place.served = tuple((mask, _by_number(mask, needs)) for mask, needs in able.items())
            place.closed = _by_span(place, kinds)
            self._add(place, self._fitting(place, now))

    def join(self, waits: Waits, line: Line) -> None:
        """One more waits."""
        kind = line.kind
        self.held &= ~kind.bit
        kind.join(line, waits)
        self._reorder(kind)

    def pop(self, line: Line) -> None:
        """The first of a line starts."""
        line.kind.pop(line)
        self._reorder(line.kind)

    def park(self, line: Line) -> None:
        """A quota holds a line up."""
        line.kind.withdraw(line)
        line.parked = True
        self._reorder(line.kind)

    def unpark(self, line: Line) -> None:
        """It may be served again."""
        line.kind.show(line)
        line.parked = False
        self._reorder(line.kind)
        self.held &= ~line.kind.bit

    def _reorder(self, kind: Kind) -> None:
        """Another may be the first of its jobs."""
        first = kind.lines[0][0] if kind.lines else NOBODY
        if first == kind.stands:
            return
        if kind.stands != NOBODY:
            del self.waiting[bisect_left(self.waiting, (kind.stands,))]
        kind.stands = first
        if first == NOBODY:
            self._wait &= ~kind.bit
        else:
            self._wait |= kind.bit
            insort(self.waiting, (first, kind))

    def able(self) -> int:
        """The kinds of which there is room for one now; none of them if all are held."""
        found = self._fit & self._wait
        if found & ~self.held and found & self._near:
            found &= ~sum(kind.bit for _, kind in self.waiting if not kind.is_near())
        return found if found & ~self.held else 0

    def freed(self, place: Place, now: float) -> None:
        """It may fit more than before."""
        self._changed.append(place)
        new = self._fitting(place, now) & ~place.kinds
        if new:
            self._add(place, new)
        self.held &= ~place.kinds

    def taken(self, place: Place, now: float) -> None:
        """It may fit less."""
        self._changed.append(place)
        gone = place.kinds & ~self._fitting(place, now)
        place.kinds ^= gone
        while gone:
            bit = gone & -gone
            gone ^= bit
            kind = self._kinds[bit]
            del kind.fitting[place.node_id]
            if len(kind.fitting) < kind.number:
                self._fit &= ~bit

    def _add(self, place: Place, new: int) -> None:
        place.kinds |= new
        while new:
            bit = new & -new
            new ^= bit
            kind = self._kinds[bit]
            kind.fitting[place.node_id] = place
            if len(kind.fitting) >= kind.number:
                self._fit |= bit

    def _fitting(self, place: Place, now: float) -> int:
        """The kinds of which there is room for a part, where the place is kept for nobody else."""
        if place.alone:
            return 0
        free, found = place.free, 0
        for mask, served in place.served:
            found |= served[(free & mask).bit_count()]
        found &= self._cpus.served(place.cpus) & self._memory.served(place.memory_mib)
        if place.holds:
            found &= ~self._alone
        for closed, shut_out in place.closed:
            if not is_open(closed, now, now + 1):
                found &= ~shut_out
        parts = found & self._parts
        while parts:
            bit = parts & -parts
            parts ^= bit
            kind = self._kinds[bit]
            if place.shares_gpu(kind.asked, kind.masks[place.node_id]) is None:
                found ^= bit
        return found

    def block(self, kind: Kind, now: float) -> None:
        """The first of this kind cannot start: foresee where it will, unless that is known."""
        rank = kind.lines[0][0]
        if rank == self.blocked and self.at > now:
            return
        changed = self._changed[kind.seen :] if kind.opens else self._places
        kind.seen = len(self._changed)
        self.blocked = rank
        self.at, self.kept = kind.foresee(dict.fromkeys(changed), now)

    def unblock(self) -> None:
        """Who was blocked has started: what was kept from it may go on."""
        self.blocked, self.held = NOBODY, 0


def _by_span(place: Place, kinds: Iterable[Kind]) -> tuple[tuple[Spans, int], ...]:
    """Whom each closure shuts out of a place: many kinds are by the same."""
    found: dict[Spans, int] = defaultdict(int)
    for kind in kinds:
        for span in kind.closed.get(place.node_id, ()):
            found[(span,)] |= kind.bit
    return tuple(found.items())


def _by_number(mask: int, needs: Iterable[tuple[float, int]]) -> list[int]:
    """By how many of these GPUs are free: who needs no more."""
    steps = Steps(needs)
    return [steps.served(number) for number in range(mask.bit_count() + 1)]
