"""How limits on GPU-hours let go of what was used, while the future is played forward.

A start is charged with its whole walltime; what a job has not used when it ends comes back at once,
and what it has used once its period is over. Times are seconds since the epoch.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial

from jobs.scheduler.holds import HORIZON_S
from jobs.scheduler.periods import CalendarMonth, Rolling, Slice
from jobs.scheduler.quota import MICROS, micros
from jobs.scheduler.tally import Counter, Tally

_DAY_S = 86_400.0
_NOISE_S = 1e-2
"""GPU-seconds: what adding and taking away floats may leave behind."""


class Month:
    """One limit for calendar months."""

    def __init__(self, counter: Counter, period: CalendarMonth, now: float) -> None:
        self._counter = counter
        self._period = period
        self._began, self._ends = now, self._end_after(now)
        self._used = counter.used
        """Of what is counted: what nobody holds any more, in millionths of a GPU-second."""
        self._running: dict[int, tuple[float, float, float]] = {}
        """By job: from when, until when at most, on how many GPUs."""

    def starts(self, job_id: int, now: float, until: float, gpus: float) -> None:
        """A job begins to use its GPUs, until then at most."""
        self.advance(now)
        self._running[job_id] = now, until, gpus

    def ends(self, job_id: int, now: float) -> None:
        """It is over."""
        self.advance(now)
        start, until, gpus = self._running.pop(job_id)
        self._used += micros(gpus * max(0.0, min(now, until) - max(start, self._began)))

    def advance(self, now: float) -> None:
        """Count as it is then."""
        while now >= self._ends:
            for start, until, gpus in self._running.values():
                passed = min(until, self._ends) - max(start, self._began)
                self._used += micros(gpus * max(0.0, passed))
            self._counter.taken -= self._used
            self._used = 0
            self._began, self._ends = self._ends, self._end_after(self._ends)

    def room_at(self, charge: int, now: float) -> float | None:
        """When so much more fits if nobody else starts; None if that is not known."""
        room, month = self._counter.limit - charge, self._ends
        while room >= 0 and month < now + HORIZON_S:
            held = sum(
                micros(gpus * max(0.0, until - max(start, month)))
                for start, until, gpus in self._running.values()
            )
            if held <= room:
                return month
            month = self._end_after(month)
        return None

    def _end_after(self, moment: float) -> float:
        return self._period.end(datetime.fromtimestamp(moment, UTC)).timestamp()


class Window:
    """One limit for the last so many days.

    Most are in nobody's way: who starts and ends is only written down, and what was used not read,
    until it is asked how the limit stands.
    """

    def __init__(
        self, counter: Counter, period: Rolling, now: float, history: Callable[[], Iterable[Slice]]
    ) -> None:
        self._counter = counter
        self._lasts = period.days * _DAY_S
        self._history = history
        self._is_read = False
        self._events: list[tuple[float, int, tuple[float, float] | None]] = []
        """Since then: when who starts, until when at most and on how many GPUs; None: ends."""
        self._corners: list[tuple[float, float]] = []
        """When how much more leaves the window each second, or less."""
        self._next = 0
        self._rate = 0.0
        self._at = now
        self._gone, self._told = 0.0, 0
        """GPU-seconds that have left it; what of that is taken off, in millionths."""
        self._used = 0
        self._running: dict[int, tuple[float, float, float]] = {}

    def starts(self, job_id: int, now: float, until: float, gpus: float) -> None:
        """A job begins to use its GPUs, until then at most."""
        self._events.append((now, job_id, (until, gpus)))

    def ends(self, job_id: int, now: float) -> None:
        """It is over."""
        self._events.append((now, job_id, None))

    def advance(self, now: float) -> None:
        """Count as it is then."""
        if not self._is_read:
            self._is_read = True
            self._read()
        events, self._events = self._events, []
        for at, job_id, begun in events:
            self._move(at)
            self._changes(at, job_id, begun)
        self._move(now)

    def _read(self) -> None:
        for one in self._history():
            begin, end = one.begin.timestamp(), one.end.timestamp()
            rate = one.gpu_seconds / (end - begin)
            self._corners += [(begin + self._lasts, rate), (end + self._lasts, -rate)]
        self._corners.sort()
        self._used = self._counter.used if self._corners else 0

    def _changes(self, at: float, job_id: int, begun: tuple[float, float] | None) -> None:
        if begun is not None:
            self._running[job_id] = at, *begun
            self._turns(at + self._lasts, begun[1])
            return
        start, until, gpus = self._running.pop(job_id)
        end = min(at, until)
        self._turns(end + self._lasts, -gpus)
        self._used += micros(gpus * (end - start))

    def _move(self, now: float) -> None:
        while self._next < len(self._corners) and self._corners[self._next][0] <= now:
            moment, more = self._corners[self._next]
            self._pass(moment)
            self._rate += more
            self._next += 1
        self._pass(now)
        if self._next == len(self._corners) and not self._running:
            # Nothing of what is known to have been used is left: no rounding, either.
            self._gone, self._rate = (self._told + self._used) / MICROS, 0.0
        gone = micros(self._gone) - self._told
        self._told += gone
        self._used -= gone
        self._counter.taken -= gone

    def room_at(self, charge: int, now: float) -> float | None:
        """When so much more fits if nobody else starts; None if that is not known."""
        self.advance(now)
        missing = (self._counter.taken + charge - self._counter.limit) / MICROS
        moment, rate = self._at, self._rate
        ends = [(until + self._lasts, -gpus) for _, until, gpus in self._running.values()]
        for corner, more in sorted(self._corners[self._next :] + ends):
            if rate > 0 and rate * (corner - moment) >= missing - _NOISE_S:
                return math.ceil(moment + missing / rate) + 1.0
            missing -= rate * (corner - moment)
            moment, rate = corner, rate + more
        return moment if missing < _NOISE_S and moment > now else None

    def _turns(self, moment: float, more: float) -> None:
        """From then on so much more leaves the window each second."""
        insort(self._corners, (moment, more), lo=self._next)

    def _pass(self, moment: float) -> None:
        self._gone += self._rate * max(0.0, moment - self._at)
        self._at = max(self._at, moment)


class Hours:
    """All such limits of a forecast or a simulation, by their numbers in the tally."""

    def __init__(self, tally: Tally, now: float) -> None:
        self._tally = tally
        self._now = now
        self._limits: dict[int, Month | Window] = {}

    def starts(self, group: int, job_id: int, now: float, until: float, gpus: float) -> None:
        """A job that the tally counts begins to use its GPUs, until then at most."""
        for counter in self._tally.counters(group).micros:
            self._limit(counter).starts(job_id, now, until, gpus)

    def ends(self, group: int, job_id: int, now: float) -> None:
        """It is over; what it has not used the tally is told by the caller."""
        for counter in self._tally.counters(group).micros:
            self._limit(counter).ends(job_id, now)

    def know(self, group: int) -> None:
        """Its limits are among those that `advance` counts."""
        for counter in self._tally.counters(group).micros:
            self._limit(counter)

    def advance(self, now: float) -> None:
        """Count all that are known as it is then."""
        for limit in self._limits.values():
            limit.advance(now)

    def are_limited(self, group: int) -> bool:
        """Whether any such limit holds for the group."""
        return bool(self._tally.counters(group).micros)

    def falls(self, group: int, limit: int, now: float) -> bool:
        """Whether less counts against the limit than was known."""
        for counter in self._tally.counters(group).micros:
            if counter.index == limit:
                before = counter.taken
                self._limit(counter).advance(now)
                return counter.taken < before
        return False

    def room_at(self, group: int, limit: int, charge: int, now: float) -> float | None:
        """When a limit has room for so many millionths of a GPU-second more; None if not known."""
        for counter in self._tally.counters(group).micros:
            if counter.index == limit:
                return self._limit(counter).room_at(charge, now)
        return None

    def _limit(self, counter: Counter) -> Month | Window:
        found = self._limits.get(counter.index)
        if found is None:
            found = self._limits[counter.index] = self._made(counter)
        return found

    def _made(self, counter: Counter) -> Month | Window:
        period = counter.rule.period
        if isinstance(period, Rolling):
            history = partial(self._tally.history, counter)
            return Window(counter, period, self._now, history)
        assert period is not None
        return Month(counter, period, self._now)
