"""What is free on a node, now and later: the only mutable state of a scheduling pass.

Times are seconds since the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from jobs.scheduler.available import Available, give_back_shards, take_shards, tightest
from jobs.scheduler.fit import name_key, usable_models
from jobs.scheduler.holds import NOW, Hold, Part, Shards, Spans, is_open
from jobs.scheduler.levels import Levels
from jobs.scheduler.snapshot import Gpu, Node
from jobs.spec import Resources


class Room(Available):
    """One node: what it has left, who has the rest, and what is promised of it."""

    __slots__ = ("booked", "divided", "levels", "models", "node", "order")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.order = (name_key(node.name), node.id)
        self.gpus: tuple[Gpu, ...] = tuple(sorted(node.gpus, key=_gpu_order))
        self.models: dict[str, int] = {}
        """The GPUs of each model."""
        self.divided = 0
        """GPUs of which parts can be had."""
        self.free = 0
        self.shared = {}
        self.cpus = node.cpus_free
        self.memory_mib = node.memory_free_mib
        self.alone = node.exclusive
        self.holds: dict[int, Hold] = {}
        self.booked: list[Hold] = []
        self.levels: Levels[Room] | None = None
        """Wants to know how many of its GPUs are free, and when that or an end changes."""
        for position, gpu in enumerate(self.gpus):
            self.models[gpu.model] = self.models.get(gpu.model, 0) | 1 << position
            self.divided |= (gpu.shards > 0) << position
            if gpu.sharers:
                self.shared[position] = sum(shards for _, shards in gpu.sharers)
            elif gpu.job_id is None:
                self.free |= 1 << position
        for job_id in {*node.jobs, *(job_id for gpu in self.gpus for job_id in _holders(gpu))}:
            self.tell(job_id, math.inf, 0, 0)

    def tell(self, job_id: int, end: float, cpus: int, memory_mib: int) -> None:
        """When a job that is here ends at the latest, and what that gives back beside its GPUs."""
        gpus, shards = 0, []
        for position, gpu in enumerate(self.gpus):
            if gpu.job_id == job_id:
                gpus |= 1 << position
            shards += [(position, part) for holder, part in gpu.sharers if holder == job_id]
        part = Part(gpus, tuple(shards), cpus, memory_mib, self.node.exclusive)
        self.holds[job_id] = Hold(job_id, end, part)
        self._changed()

    def expect(self, job_id: int, end: float) -> None:
        """A job that is here ends at another time than was thought."""
        held = self.holds[job_id]
        self.holds[job_id] = Hold(job_id, end, held.part, held.start)
        self._changed()

    def mask(self, asked: Resources) -> int:
        """The GPUs that may serve the request, free or not."""
        usable = usable_models(self.node, asked)
        return sum(mask for model, mask in self.models.items() if model in usable)

    def fits_at(self, asked: Resources, mask: int, start: float, until: float) -> bool:
        """The same as `fits` from `start` to `until`, beside what is promised.

        Whoever is past their end at `start` counts as gone.
        """
        free = mask
        for held in self._there(start, until):
            if asked.exclusive or held.part.alone:
                return False
            free &= ~held.part.touches()
        if free.bit_count() < asked.gpus_per_node:
            return False
        if asked.shards and self._shares_gpu_at(asked, mask, start, until) is None:
            return False
        for held in self.booked:
            if start < held.start < until and not self._rest_fits(asked, held.start):
                return False
        return self._rest_fits(asked, start)

    def gpus_at(self, start: float, until: float) -> int:
        """Whole GPUs that are free at `start` and not promised before `until`."""
        free = self._every
        for held in self._there(start, until):
            free &= ~held.part.touches()
        return free

    def _there(self, start: float, until: float) -> list[Hold]:
        """Who has something at `start`, and who is promised something meanwhile."""
        there = [held for held in self.holds.values() if held.end > start]
        if self.booked:
            there += [held for held in self.booked if held.start < until and held.end > start]
        return there

    def earliest(
        self, asked: Resources, mask: int, length: float, now: float, closed: Spans = (),
        after: float = NOW,
    ) -> float:  # fmt: skip
        """When it first fits for `length` seconds, at the latest; infinity when that is not known.

        `after`: only later than this, when it does not fit.
        """
        until, needed, gpus = now + length, asked.gpus_per_node, self.free
        may = after < now and (gpus & mask).bit_count() >= needed and is_open(closed, now, until)
        if may and self.fits_at(asked, mask, NOW, until):
            return now
        moments = [(held.end, held.part.touches()) for held in self.holds.values()]
        moments += [(held.end, 0) for held in self.booked]
        moments += [(end, 0) for _, end in closed]
        for end, freed in sorted(moments):
            gpus |= freed
            if end == math.inf:
                break
            start = max(end, now + 1)
            if start <= after or (gpus & mask).bit_count() < needed:
                continue
            until = start + length
            if is_open(closed, start, until) and self.fits_at(asked, mask, start, until):
                return start
            after = start
        return math.inf

    def opens(self, asked: Resources, mask: int) -> float:
        """With whose end it fits, if nothing is promised: NOW if it does, infinity if unknown."""
        if self.fits_at(asked, mask, NOW, math.inf):
            return NOW
        gpus = self.free
        for held in sorted(self.holds.values(), key=_by_end):
            gpus |= held.part.touches()
            if held.end == math.inf:
                break
            if (gpus & mask).bit_count() < asked.gpus_per_node:
                continue
            if self.fits_at(asked, mask, held.end, math.inf):
                return held.end
        return math.inf

    def freed_at(self, moment: float) -> float:
        """When the last of those left who will be gone by then."""
        return max((held.end for held in self.holds.values() if held.end <= moment), default=NOW)

    def part(
        self, asked: Resources, mask: int, start: float, until: float, gpu: int | None = None
    ) -> Part:
        """What the job would get from `start` on. The caller knows that it fits.

        `gpu`: where its shards should come from, if nothing is promised there.
        """
        if asked.exclusive:
            return Part(self._every, (), self.node.cpus, asked.memory_mib or 0, True)
        gpus = 0
        shards: Shards = ()
        if asked.gpus_per_node:
            gpus = self._pick(self.gpus_at(start, until) & mask, asked.gpus_per_node, start)
        position = self._shares_gpu_at(asked, mask, start, until, gpu) if asked.shards else None
        if position is not None:
            shards = ((position, asked.shards),)
        return Part(gpus, shards, asked.cpus, asked.memory_mib or 0)

    @property
    def _every(self) -> int:
        return (1 << len(self.gpus)) - 1

    def snugness(self) -> tuple[object, ...]:
        """Sorts the tightest first: few free GPUs, then few free CPUs, then by name."""
        return (self.free.bit_count(), self.cpus, self.order)

    def take(self, job_id: int, part: Part, end: float) -> None:
        """Give a job its part now."""
        self.holds[job_id] = Hold(job_id, end, part)
        self._free_are(self.free & ~part.touches())
        take_shards(self.shared, part.shards)
        self.cpus -= part.cpus
        self.memory_mib -= part.memory_mib
        self.alone = self.alone or part.alone

    def release(self, job_id: int) -> None:
        """The job is gone. A node that nobody is left on is whole again."""
        part = self.holds.pop(job_id).part
        self._free_are(self.free | part.gpus | give_back_shards(self.shared, part.shards))
        self.cpus += part.cpus
        self.memory_mib += part.memory_mib
        self.alone = any(held.part.alone for held in self.holds.values())
        if not self.holds:
            self.cpus, self.memory_mib = self.node.cpus, self.node.memory_mib

    def restore(self, cpus: int, memory_mib: int) -> None:
        """So many are left of these, whoever has come and gone."""
        self.cpus, self.memory_mib = cpus, memory_mib
        self._free_are(self.free)

    def _free_are(self, free: int) -> None:
        if self.levels is not None:
            self.levels.move(self, self.free.bit_count(), free.bit_count())
        self.free = free
        self._changed()

    def _changed(self) -> None:
        if self.levels is not None:
            self.levels.touch(self)

    def _rest_fits(self, asked: Resources, moment: float) -> bool:
        """CPUs and memory at a moment."""
        cpus, memory_mib, left = self.cpus, self.memory_mib, len(self.holds)
        for held in self.holds.values():
            if held.end <= moment:
                cpus += held.part.cpus
                memory_mib += held.part.memory_mib
                left -= 1
        if not left:
            cpus, memory_mib = self.node.cpus, self.node.memory_mib
        for held in self.booked:
            if held.start <= moment < held.end:
                cpus -= held.part.cpus
                memory_mib -= held.part.memory_mib
        return cpus >= asked.cpus and (asked.memory_mib is None or memory_mib >= asked.memory_mib)

    def _shares_gpu_at(
        self, asked: Resources, mask: int, start: float, until: float, wanted: int | None = None
    ) -> int | None:
        """The GPU that its shards would come from: the one that is wanted, if it has enough."""
        whole, shared = 0, dict[int, int]()
        for held in self._there(start, until):
            whole |= held.part.gpus
            take_shards(shared, held.part.shards)
        rest = mask & ~whole
        first = rest & 1 << wanted if wanted is not None else 0
        found = tightest(self.gpus, asked.shards, first, first, shared)
        return tightest(self.gpus, asked.shards, rest, rest, shared) if found is None else found

    def _pick(self, bits: int, number: int, start: float) -> int:
        """GPUs of one model if any has enough, the scarcest, without those that are divided for
        who wants a part; then of one NVLink domain."""
        if bits.bit_count() == number:
            return bits
        whole = [mask & bits & ~self.divided for mask in self.models.values()]
        piles = [mask & bits for mask in self.models.values()]
        pile = _tightest(whole, number) or _tightest(piles, number) or bits
        domains: dict[int, int] = {}
        for position in _positions(pile):
            domain = self.gpus[position].domain
            domains[domain] = domains.get(domain, 0) | 1 << position
        near = _tightest(list(domains.values()), number)
        if near is not None:
            return self._first(near, number, start)
        picked = 0
        for group in sorted(domains.values(), key=lambda bits: (-bits.bit_count(), bits)):
            picked |= self._first(group, min(number - picked.bit_count(), group.bit_count()), start)
        return picked

    def _first(self, bits: int, number: int, start: float) -> int:
        """The lowest indices now; later on those that are free last, the others stay for now."""
        freed = {
            position: held.end
            for held in self.holds.values()
            if start != NOW
            for position in _positions(held.part.touches() & bits)
        }
        order = sorted(_positions(bits), key=lambda at: (-freed.get(at, NOW), at))
        return sum(1 << position for position in order[:number])


def _holders(gpu: Gpu) -> Iterator[int]:
    if gpu.job_id is not None:
        yield gpu.job_id
    yield from (job_id for job_id, _ in gpu.sharers)


def _positions(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _tightest(piles: list[int], number: int) -> int | None:
    """The smallest that has enough, of equal ones that with the lowest index."""
    enough = [(pile.bit_count(), pile & -pile, pile) for pile in piles]
    return min((one for one in enough if one[0] >= number), default=(0, 0, None))[2]


def _by_end(held: Hold) -> tuple[float, int]:
    return held.end, held.job_id


def _gpu_order(gpu: Gpu) -> tuple[int, str]:
    return (gpu.index, gpu.uuid)
