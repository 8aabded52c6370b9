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
from collections.abc import Iterable, Mapping

from jobs.scheduler.lines import Coming, Counted, Kind, Line, Queue
from jobs.scheduler.place import Place
from jobs.scheduler.pool import Closure, Pool
from jobs.scheduler.tally import BORROWS, FITS, Tally


class Forecast:
    """A cluster played forward; `starts` tells when each job is expected to start."""

    def __init__(self, pools: Mapping[str, Pool], tally: Tally, now: float) -> None:
        self._now = now
        self._tally = tally
        self._places = {r.node.id: Place(r) for pool in pools.values() for r in pool.rooms}
        self._queues = {name: Queue() for name in sorted(pools)}
        self._lines: dict[tuple[int, int, int], Line] = {}
        self._parked: dict[object, list[Line]] = defaultdict(list)
        self._events: list[tuple[float, int, Coming | None]] = []
        """When a job ends or becomes ready (then it is given), or a reservation (negative) ends."""
        self._on: dict[int, list[Place]] = {}
        self._running: dict[int, Counted] = {}
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
            self._running[job_id] = counted
            if counted.array:
                self._tasks[counted.array[0]] += 1
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
        array = job.counted.array
        key = (id(job.shape), job.counted.group, array[0] if array else -1)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(kind, job.partition)
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
        counted = self._running.pop(job_id, None)
        if counted is not None:
            self._tally.remove(counted.group, counted.gpus, counted.gpu_seconds)
            for limit in self._tally.limits(counted.group):
                self._unpark(limit, freed)
            if counted.array:
                self._tasks[counted.array[0]] -= 1
                self._unpark(counted.array, freed)
        for other in self._dependents.pop(job_id, ()):
            other.after -= 1
            if not other.after:
                self._ready(other)
                freed.add(other.partition)

    def _unpark(self, limit: object, freed: set[str]) -> None:
        for line in self._parked.pop(limit, ()):
            line.parked = False
            heapq.heappush(line.kind.lines, line)
            freed.add(line.partition)

    def _serve(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            self._serve_queue(self._queues[name])

    def _serve_queue(self, queue: Queue) -> None:
        while any(
            k.lines and len(k.fitting) >= k.number and not k.held for k in queue.kinds.values()
        ):
            if not self._serve_first(queue):
                break

    def _serve_first(self, queue: Queue) -> bool:
        """Start the first job that can, or find that a quota is in its way; False if none can."""
        waiting = [kind for kind in queue.kinds.values() if kind.lines]
        waiting.sort(key=_first_rank)
        clear = True
        for kind in waiting:
            if len(kind.fitting) < kind.number:
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

    def _limit(self, job: Coming) -> object | None:
        """The limit that keeps it from starting now."""
        counted = job.counted
        if counted.array and self._tasks[counted.array[0]] >= counted.array[1]:
            return counted.array
        found = self._tally.check(counted.group, counted.gpus, counted.gpu_seconds)
        return None if found in (FITS, BORROWS) else found

    def _start_one(self, queue: Queue, kind: Kind, clear: bool) -> bool:
        """Start the first of its jobs that may; False if it would be in the way of the blocked."""
        line = kind.lines[0]
        fitting = list(kind.fitting.values())
        if kind.closed:
            until = self._now + line.jobs[0].runs_s
            fitting = [place for place in fitting if kind.is_open(place, self._now, until)]
            if len(fitting) < kind.number:
                return False
        if not clear:
            beside = [place for place in fitting if place.node_id not in queue.kept]
            if len(beside) >= kind.number:
                fitting = beside
            else:
                soon = [one for one in kind.lines if self._now + one.jobs[0].runs_s <= queue.at]
                if not soon:
                    return False
                line = min(soon)
        if len(fitting) > kind.number:
            fitting = heapq.nsmallest(kind.number, fitting, key=Place.snugness)
        self._start(line, fitting)
        return True

    def _start(self, line: Line, places: list[Place]) -> None:
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
        counted = self._running[job.id] = job.counted
        self._tally.add(counted.group, counted.gpus, counted.gpu_seconds)
        if counted.array:
            self._tasks[counted.array[0]] += 1
        heapq.heappush(self._events, (end, job.id, None))
        if queue.blocked is job:
            # What was kept from it may go on.
            queue.blocked = None
            for other in queue.kinds.values():
                other.held = False


def _first_rank(kind: Kind) -> int:
    return kind.lines[0].jobs[0].rank
