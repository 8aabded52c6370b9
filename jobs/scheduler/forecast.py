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

from jobs.scheduler.allowance import Allowance, Limit
from jobs.scheduler.backlog import Backlog
from jobs.scheduler.closures import Closure
from jobs.scheduler.holds import HORIZON_S
from jobs.scheduler.kept import Kept
from jobs.scheduler.lines import Coming, Counted, Gates, Kind, Line, Waits
from jobs.scheduler.place import Place
from jobs.scheduler.pool import Pool
from jobs.scheduler.tally import Tally


class Forecast:
    """A cluster played forward; `starts` tells when each job is expected to start."""

    def __init__(self, pools: Mapping[str, Pool], tally: Tally, now: float) -> None:
        self._now = now
        self._allowance = Allowance(tally, now)
        self._backlogs: dict[str, Backlog] = {}
        self._places: dict[int, Place] = {}
        self._at: dict[int, list[Place]] = defaultdict(list)
        """Where each job is that runs now."""
        for name, pool in sorted(pools.items()):
            places = [Place(room, order) for order, room in enumerate(pool.rooms)]
            self._backlogs[name] = Backlog(name, places)
            for place in places:
                self._places[place.node_id] = place
                for held in place.holds:
                    self._at[held[1]].append(place)
        self._kept = Kept(pools.values(), self._places)
        self._lines: dict[tuple[int, int, int | None, float, float], Line] = {}
        self._parked: dict[Limit, dict[tuple[float, ...], list[Line]]] = defaultdict(dict)
        """By the limit that holds them up, and how much of it they need."""
        self._closures = [closure for pool in pools.values() for closure in pool.closures]
        self._events: list[tuple[float, int, Waits | None]] = [
            (closure.end, -number, None) for number, closure in enumerate(self._closures, 1)
        ]
        """When a job ends or becomes ready (then it is given), or, with negative numbers, a
        reservation ends or a limit on GPU-hours has room again."""
        heapq.heapify(self._events)
        self._on: dict[int, Sequence[Place]] = {}
        self._awaited: dict[int, float] = {}
        """When limits on GPU-hours are looked at again."""
        self._gates = Gates()
        self._asked = set[int]()
        """About whom it is, if not about all: those who have not started yet."""
        self.starts: dict[int, float] = {}
        """By job id; infinity for those who could no longer end before their deadlines then."""

    def runs(self, job_id: int, end: float, counted: Counted | None = None) -> None:
        """A job that runs now, and is expected to end then. `counted`: how quotas count it."""
        end = max(end, self._now + 1)
        self._on[job_id] = self._at.get(job_id, ())
        for place in self._on[job_id]:
            place.expect(job_id, end)
        if counted is not None:
            self._allowance.runs(job_id, counted, self._now)
        if end < math.inf:
            heapq.heappush(self._events, (end, job_id, None))

    def comes(self, job: Coming, runs_s: float, after: frozenset[int] = frozenset()) -> None:
        """A job that waits, and will run for so long; `after`: those that have to end before, none
        of which is unknown."""
        self._backlogs[job.partition].kind(job.shape)
        self._kept.comes(job)
        waits = Waits(job.rank, runs_s, job)
        if after:
            self._gates.wait(waits, after)
        else:
            self._ready(waits)

    def play(self, about: Iterable[int] = ()) -> dict[int, float]:
        """Until nothing happens for years, or all have started `about` whom it is; `starts`."""
        self._asked = set(about)
        every = not self._asked
        for backlog in self._backlogs.values():
            backlog.begin(self._now)
        self._serve(self._backlogs)
        end = self._now + HORIZON_S
        while self._events and self._events[0][0] <= end and (self._asked or every):
            self._now = self._events[0][0]
            freed: set[str] = set()
            while self._events and self._events[0][0] <= self._now:
                _, job_id, ready = heapq.heappop(self._events)
                if ready is not None:
                    self._join(ready)
                    freed.add(ready.job.partition)
                elif job_id < -len(self._closures):
                    self._let_go(-job_id - len(self._closures) - 1, freed)
                elif job_id < 0:
                    self._open(self._closures[-job_id - 1], freed)
                else:
                    self._end(job_id, freed)
            self._serve(freed)
        return self.starts

    def _ready(self, waits: Waits) -> None:
        job = waits.job
        if job.ready_at > self._now:
            heapq.heappush(self._events, (job.ready_at, job.id, waits))
        else:
            self._join(waits)

    def _join(self, waits: Waits) -> None:
        job = waits.job
        counted = job.counted
        # Where GPU-hours are limited, a shorter one may start before a longer one.
        charge = self._allowance.charge(counted)
        key = (id(job.shape), counted.group, counted.array, counted.at_once, charge)
        backlog = self._backlogs[job.partition]
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(backlog.kind(job.shape))
        if job.takes:
            backlog.join(waits, line)
        elif line.jobs:
            line.asking.append(waits)
        else:
            self._ask(backlog, [waits])

    def _ask(self, backlog: Backlog, asking: Iterable[Waits]) -> None:
        """Each of those who take nothing is alone behind those before it."""
        for waits in asking:
            backlog.join(waits, Line(backlog.kind(waits.job.shape)))

    def _open(self, closure: Closure, freed: set[str]) -> None:
        for node_id in closure.node_ids & self._places.keys():
            place = self._places[node_id]
            self._backlogs[place.partition].freed(place, self._now)
            freed.add(place.partition)

    def _end(self, job_id: int, freed: set[str]) -> None:
        for place in self._on.pop(job_id, ()):
            place.leave(job_id)
            self._backlogs[place.partition].freed(place, self._now)
            freed.add(place.partition)
        for limit in self._allowance.ends(job_id, self._now):
            self._unpark(limit, freed)
        for other in self._gates.let_through(job_id):
            self._ready(other)
            freed.add(other.job.partition)

    def _let_go(self, limit: int, freed: set[str]) -> None:
        if self._awaited.get(limit) == self._now:
            del self._awaited[limit]
            self._unpark(limit, freed)

    def _unpark(self, limit: Limit, freed: set[str]) -> None:
        """Those go on whom it keeps back no longer."""
        parked = self._parked.get(limit, {})
        for need, lines in list(parked.items()):
            counted = lines[0].jobs[0].job.counted
            if self._allowance.reached(counted, self._now) == limit:
                self._await(limit, counted)
                continue
            del parked[need]
            for line in lines:
                self._backlogs[line.kind.partition].unpark(line)
                freed.add(line.kind.partition)

    def _serve(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            backlog = self._backlogs[name]
            while (able := backlog.able()) and self._serve_first(backlog, able):
                pass

    def _serve_first(self, backlog: Backlog, able: int) -> bool:
        """Start the first job that can, or find one that may not; False if there is neither.

        `able`: the kinds of which there is room for one.
        """
        clear = True
        for _, kind in backlog.waiting:
            if not able & kind.bit:
                if clear and kind.first.job.takes:
                    if self._steps_aside(backlog, kind) or self._misses(backlog, kind):
                        return True
                    clear = False
                continue
            if not backlog.held & kind.bit and self._serve_kind(backlog, kind, clear):
                return True
            if kind.closed and kind.stands == backlog.blocked:
                clear = clear and backlog.at <= self._now
        return False

    def _serve_kind(self, backlog: Backlog, kind: Kind, clear: bool) -> bool:
        """The same for the first of a kind of which there is room for one."""
        moved = self._steps_aside(backlog, kind) or self._start_one(backlog, kind, clear)
        if not moved and clear and kind.closed and kind.first.job.takes:
            # It waits for a reservation.
            late = self._misses(backlog, kind)
            moved = late or (backlog.at > self._now and self._start_one(backlog, kind, clear=False))
        if not moved:
            backlog.held |= kind.bit
        return moved

    def _steps_aside(self, backlog: Backlog, kind: Kind) -> bool:
        """Whether the first of a kind is too late for its deadline, or a quota is in its way."""
        line = kind.lines[0][1]
        job = line.jobs[0].job
        if self._now > job.by:
            self._leaves(backlog, line, math.inf)
            return True
        if (limit := self._allowance.reached(job.counted, self._now)) is not None:
            self._park(backlog, line, limit)
        return limit is not None

    def _misses(self, backlog: Backlog, kind: Kind) -> bool:
        """Keep a place for the first of a kind, which cannot start; whether that is too late."""
        backlog.block(kind, self._now)
        if backlog.at <= kind.first.job.by:
            return False
        self._leaves(backlog, kind.lines[0][1], math.inf)
        return True

    def _park(self, backlog: Backlog, line: Line, limit: Limit) -> None:
        self._kept.leaves(line.jobs[0].job.id)
        backlog.park(line)
        counted = line.jobs[0].job.counted
        need = counted.gpus, self._allowance.charge(counted), counted.at_once
        self._parked[limit].setdefault(need, []).append(line)
        self._await(limit, counted)

    def _await(self, limit: Limit, counted: Counted) -> None:
        """Look again once a period has let go of enough, if it is one of GPU-hours."""
        at = self._allowance.room_at(limit, counted, self._now)
        if at is not None and isinstance(limit, int) and at < self._awaited.get(limit, math.inf):
            self._awaited[limit] = at
            heapq.heappush(self._events, (at, -len(self._closures) - 1 - limit, None))

    def _start_one(self, backlog: Backlog, kind: Kind, clear: bool) -> bool:
        """Start the first of its jobs that may; False if it would be in the way of the blocked."""
        line = kind.lines[0][1]
        free = self._free(kind, line.jobs[0])
        if not clear:
            free = [one for one in free if one not in backlog.kept]
        places = kind.choose(free)
        if places is None and not clear and (soon := self._soon(kind, backlog.at)) is not None:
            line, places = soon
        if places is None:
            return False
        counted = line.jobs[0].job.counted
        if kind.counts is not None:
            counted = kind.counted(line.jobs[0].job, places)
            if self._allowance.exceeded(counted, self._now) is not None:
                return False
        self._start(backlog, line, places, counted)
        return True

    def _free(self, kind: Kind, waits: Waits) -> list[Place]:
        """Where there is room for its part, of which nothing is promised or reserved meanwhile."""
        rank, _, job = waits
        free = kind.open_for(job.limit_s, self._now)
        return self._kept.clear(kind, rank, free, self._now, self._now + job.limit_s)

    def _soon(self, kind: Kind, by: float) -> tuple[Line, Sequence[Place]] | None:
        """The first that will be gone by then, and that no limit keeps back.

        Where one finds no room, nor does any behind it that may run as long: no fewer promises go
        before that, and no fewer closures come in its time.
        """
        too_long = math.inf
        for _, line in kind.lines:
            _, runs_s, job = line.jobs[0]
            in_time = self._now + runs_s <= by and self._now <= job.by
            if not in_time or self._allowance.reached(job.counted, self._now) is not None:
                continue
            if job.limit_s < too_long:
                places = kind.choose(self._free(kind, line.jobs[0]))
                if places is not None:
                    return line, places
                too_long = job.limit_s
        return None

    def _start(
        self, backlog: Backlog, line: Line, places: Sequence[Place], counted: Counted
    ) -> None:
        (_, runs_s, job), kind = line.jobs[0], line.kind
        self._leaves(backlog, line, self._now)
        if not job.takes:
            return
        end = self._now + runs_s
        for place in places:
            place.take(job.id, kind.asked, kind.masks[place.node_id], end)
            backlog.taken(place, self._now)
        self._on[job.id] = places
        self._allowance.starts(job.id, counted, self._now)
        heapq.heappush(self._events, (end, job.id, None))

    def _leaves(self, backlog: Backlog, line: Line, starts: float) -> None:
        """The first of a line waits no more."""
        rank, _, job = line.jobs[0]
        backlog.pop(line)
        self.starts[job.id] = starts
        self._asked.discard(job.id)
        if job.takes and line.asking and not line.jobs:
            asking, line.asking = line.asking, []
            self._ask(backlog, asking)
        if self._kept.leaves(job.id):
            backlog.held = 0
        if rank == backlog.blocked:
            backlog.unblock()
