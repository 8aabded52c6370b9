"""When each waiting job is expected to start: the same rules, played forward in time.

From event to event: a job ends, what it held is free, and whoever is first and fits starts. Behind
the first job that does not fit others start only if they end before it can start, or stay clear of
the nodes it is going to use. Equal requests are looked at together, so that the work grows with the
number of jobs and not with its square.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from jobs.scheduler.hours import Hours
from jobs.scheduler.lines import Coming, Counted, Kind, Line, Queue
from jobs.scheduler.place import Place
from jobs.scheduler.pool import Closure, Pool
from jobs.scheduler.quota import micros
from jobs.scheduler.tally import BORROWS, FITS, Tally


class Forecast:
    """A cluster played forward; `starts` tells when each job is expected to start."""

    def __init__(self, pools: Mapping[str, Pool], tally: Tally, now: float) -> None:
        self._now = now
        self._tally = tally
        self._places = {r.node.id: Place(r) for pool in pools.values() for r in pool.rooms}
        self._queues = {name: Queue() for name in sorted(pools)}
        self._lines: dict[tuple[int, int, int, float], Line] = {}
        self._parked: dict[object, list[Line]] = defaultdict(list)
        self._events: list[tuple[float, int, Coming | None]] = []
        """When a job ends or becomes ready (then it is given), or, with negative numbers, a
        reservation ends or a limit on GPU-hours has room again."""
        self._on: dict[int, Sequence[Place]] = {}
        self._running: dict[int, tuple[float, Counted]] = {}
        """Since when, and how limits count it."""
        self._hours = Hours(tally, now)
        self._awaited: dict[int, float] = {}
        """When limits on GPU-hours are looked at again."""
        self._tasks: dict[int, int] = defaultdict(int)
        """Tasks of each array that run."""
        self._dependents: dict[int, list[Coming]] = defaultdict(list)
        self._closures = [closure for pool in pools.values() for closure in pool.closures]
        for number, closure in enumerate(self._closures, 1):
            heapq.heappush(self._events, (closure.end, -number, None))
        self.starts: dict[int, float] = {}

    def runs(self, job_id: int, end: float, counted: Counted | None = None) -> None:
        """A job that runs now, and is expected to end then. `counted`: how quotas count it."""
        end = max(end, self._now + 1)
        self._on[job_id] = [p for p in self._places.values() if p.expect(job_id, end)]
        if counted is not None:
            self._count(job_id, counted)
        if end < math.inf:
            heapq.heappush(self._events, (end, job_id, None))

    def comes(self, job: Coming, after: Iterable[int] = ()) -> None:
        """A job that waits; `after`: those that have to end before, none of which is unknown."""
        for other in after:
            job.after += 1
            self._dependents[other].append(job)
        if not job.after:
            self._ready(job)

    def play(self) -> dict[int, float]:
        """Until nothing happens any more; `starts`."""
        self._serve(self._queues)
        while self._events:
            self._now = self._events[0][0]
            freed: set[str] = set()
            while self._events and self._events[0][0] <= self._now:
                _, job_id, ready = heapq.heappop(self._events)
                if ready is not None:
                    self._join(ready)
                    freed.add(ready.partition)
                elif job_id < -len(self._closures):
                    self._let_go(-job_id - len(self._closures) - 1, freed)
                elif job_id < 0:
                    self._open(self._closures[-job_id - 1], freed)
                else:
                    self._end(job_id, freed)
            self._serve(freed)
        return self.starts

    def _ready(self, job: Coming) -> None:
        if job.ready_at > self._now:
            heapq.heappush(self._events, (job.ready_at, job.id, job))
        else:
            self._join(job)

    def _join(self, job: Coming) -> None:
        kinds = self._queues[job.partition].kinds
        kind = kinds.get(id(job.shape))
        if kind is None:
            kind = kinds[id(job.shape)] = Kind(job.shape, self._places, self._now)
        group, _, charge, array = job.counted
        # Where GPU-hours are limited, a shorter one may start before a longer one.
        charge = charge if self._hours.are_limited(group) else 0.0
        key = (id(job.shape), group, array[0] if array else -1, charge)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(kind, job.partition)
        kind.held = False
        heapq.heappush(line.jobs, job)
        if len(line.jobs) == 1 and not line.parked:
            heapq.heappush(kind.lines, line)
        elif line.jobs[0] is job and not line.parked:
            heapq.heapify(kind.lines)

    def _open(self, closure: Closure, freed: set[str]) -> None:
        for node_id in closure.node_ids & self._places.keys():
            place = self._places[node_id]
            self._queues[place.room.node.partition].freed(place, self._now)
            freed.add(place.room.node.partition)

    def _end(self, job_id: int, freed: set[str]) -> None:
        for place in self._on.pop(job_id, ()):
            place.leave(job_id)
            self._queues[place.room.node.partition].freed(place, self._now)
            freed.add(place.room.node.partition)
        if job_id in self._running:
            self._give_back(job_id, freed)
        for other in self._awaiting(job_id):
            other.after -= 1
            if not other.after:
                self._ready(other)
                freed.add(other.partition)

    def _awaiting(self, job_id: int) -> list[Coming]:
        """Who waits for its end. If it waits again itself, the others do for its next one."""
        there = self._dependents.pop(job_id, [])
        again = [job for job in there if job.id == job_id]
        if again:
            self._dependents[job_id] = [job for job in there if job.id != job_id]
        return again or there

    def _count(self, job_id: int, counted: Counted) -> None:
        """The tally counts it; so do its array, and the periods of GPU-hours."""
        self._running[job_id] = self._now, counted
        if counted.array:
            self._tasks[counted.array[0]] += 1
        if counted.gpus:
            until = self._now + counted.gpu_seconds / counted.gpus
            self._hours.starts(counted.group, job_id, self._now, until, counted.gpus)

    def _give_back(self, job_id: int, freed: set[str]) -> None:
        """What it has used of its GPU-hours stays used."""
        began, counted = self._running.pop(job_id)
        group, gpus, charge, array = counted
        if gpus:
            self._hours.ends(group, job_id, self._now)
        self._tally.remove(group, gpus, max(0.0, charge - gpus * (self._now - began)))
        for limit in self._tally.limits(group):
            self._unpark(limit, freed)
        if array:
            self._tasks[array[0]] -= 1
            self._unpark(array, freed)

    def _let_go(self, limit: int, freed: set[str]) -> None:
        if self._awaited.get(limit) == self._now:
            del self._awaited[limit]
            self._unpark(limit, freed)

    def _unpark(self, limit: object, freed: set[str]) -> None:
        for line in self._parked.pop(limit, ()):
            line.parked = line.kind.held = False
            heapq.heappush(line.kind.lines, line)
            freed.add(line.partition)

    def _serve(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            self._serve_queue(self._queues[name])

    def _serve_queue(self, queue: Queue) -> None:
        while any(
            k.lines and not k.held and len(k.fitting) >= k.number and k.fits()
            for k in queue.kinds.values()
        ):
            if not self._serve_first(queue):
                break

    def _serve_first(self, queue: Queue) -> bool:
        """Start the first job that can, or find that a quota is in its way; False if none can."""
        waiting = [kind for kind in queue.kinds.values() if kind.lines]
        waiting.sort(key=_first_rank)
        clear = True
        for kind in waiting:
            if len(kind.fitting) < kind.number or not kind.fits():
                if clear:
                    limit = self._limit(kind.lines[0].jobs[0])
                    if limit is not None:
                        self._park(kind, limit)
                        return True
                    queue.block(kind, self._places, self._now)
                clear = False
            elif not kind.held:
                limit = self._limit(kind.lines[0].jobs[0])
                if limit is not None:
                    self._park(kind, limit)
                    return True
                if self._start_one(queue, kind, clear):
                    return True
                kind.held = True
        return False

    def _park(self, kind: Kind, limit: object) -> None:
        line = heapq.heappop(kind.lines)
        line.parked = True
        self._parked[limit].append(line)
        if isinstance(limit, int):
            self._await(limit, line.jobs[0].counted)

    def _await(self, limit: int, counted: Counted) -> None:
        """Look again once a period has let go of enough, if it is one of GPU-hours."""
        charge = micros(counted.gpu_seconds)
        at = self._hours.room_at(counted.group, limit, charge, self._now)
        if at is not None and at < self._awaited.get(limit, math.inf):
            self._awaited[limit] = at
            heapq.heappush(self._events, (at, -len(self._closures) - 1 - limit, None))

    def _limit(self, job: Coming) -> object | None:
        """The limit that keeps it from starting now."""
        counted = job.counted
        if counted.array and self._tasks[counted.array[0]] >= counted.array[1]:
            return counted.array
        return self._exceeded(counted)

    def _exceeded(self, counted: Counted) -> int | None:
        group, gpus, charge, _ = counted
        found = self._tally.check(group, gpus, charge)
        while found not in (FITS, BORROWS) and self._hours.falls(group, found, self._now):
            found = self._tally.check(group, gpus, charge)
        return None if found in (FITS, BORROWS) else found

    def _start_one(self, queue: Queue, kind: Kind, clear: bool) -> bool:
        """Start the first of its jobs that may; False if it would be in the way of the blocked."""
        line = kind.lines[0]
        fitting = list(kind.fitting.values())
        if kind.closed:
            until = self._now + line.jobs[0].runs_s
            fitting = [place for place in fitting if kind.is_open(place, self._now, until)]
        free = fitting if clear else [one for one in fitting if one.node_id not in queue.kept]
        places = kind.choose(free)
        if places is None and not clear:
            soon = [one for one in kind.lines if self._now + one.jobs[0].runs_s <= queue.at]
            soon = [one for one in soon if self._limit(one.jobs[0]) is None]
            if soon:
                line, places = min(soon), kind.choose(fitting)
        if places is None:
            return False
        counted = kind.counted(line.jobs[0], places)
        if kind.shape.varies and self._exceeded(counted) is not None:
            return False
        self._start(line, places, counted)
        return True

    def _start(self, line: Line, places: Sequence[Place], counted: Counted) -> None:
        job, kind = heapq.heappop(line.jobs), line.kind
        if line is kind.lines[0]:
            heapq.heapreplace(kind.lines, line) if line.jobs else heapq.heappop(kind.lines)
        else:
            if not line.jobs:
                kind.lines.remove(line)
            heapq.heapify(kind.lines)
        end = self._now + job.runs_s
        queue = self._queues[job.partition]
        for place in places:
            place.take(job.id, job.shape, end)
            queue.taken(place, self._now)
        self.starts[job.id] = self._now
        self._on[job.id] = places
        self._tally.add(counted.group, counted.gpus, counted.gpu_seconds)
        self._count(job.id, counted)
        heapq.heappush(self._events, (end, job.id, None))
        if queue.blocked is job:
            # What was kept from it may go on.
            queue.blocked = None
            for other in queue.kinds.values():
                other.held = False


def _first_rank(kind: Kind) -> int:
    return kind.lines[0].jobs[0].rank
