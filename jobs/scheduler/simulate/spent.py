"""Limits on GPU-hours while a workload is played: what is charged, used, and forgotten.

They hold from time 0 on. What ran before that did so in the lab, whatever was used there, and only
fills the cluster; at time 0 counts what had really been used by then, and what runs may still use.
Times are seconds since time 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from jobs.scheduler.admit import admit
from jobs.scheduler.holds import HORIZON_S
from jobs.scheduler.hours import Hours
from jobs.scheduler.limits import Key
from jobs.scheduler.pool import Pool
from jobs.scheduler.quota import counted, micros
from jobs.scheduler.simulate.workload import Workload
from jobs.scheduler.snapshot import Pending
from jobs.scheduler.tally import Counter, Tally

_NO_LIMIT = 1 << 80
"""In what is counted: no lab ever uses so much."""


@dataclass(slots=True)
class _Held:
    """What a running job has of its limits."""

    group: int
    gpus: float
    until: float
    """Up to when the tally has charged it."""
    ends: float
    """When it will, if nobody makes it leave."""


class Spent:
    """What a tally counts of GPU-hours, kept right as time goes on. Without any such limit it does
    nothing."""

    def __init__(self, workload: Workload, tally: Tally) -> None:
        self._tally = tally
        self._began = workload.usage.at.timestamp()
        self._hours: Hours | None = None
        """None before time 0."""
        self._running: dict[int, _Held] = {}
        self._awaited: dict[int, float] = {}
        """By limit, when it is looked at again."""
        limited = any(quota.limits.gpu_hours is not None for quota in workload.quotas)
        self._groups = sorted({tally.group(*key) for key in _keys(workload)}) if limited else []
        for counter in self._counters():
            counter.limit = _NO_LIMIT

    def starts(self, job: Pending, gpus: float, runs_s: float, now: float) -> None:
        """The tally has just charged it with its whole walltime."""
        if not (self._groups and gpus):
            return
        group = self._group(job)
        if not self._tally.counters(group).micros:
            return
        held = _Held(group, gpus, now + job.walltime_s, now + runs_s)
        self._running[job.id] = held
        if self._hours is not None:
            self._tell(self._hours, job.id, held, now)

    def outlives(self, job_id: int, now: float) -> None:
        """It goes on beyond its walltime, and uses more than it was charged with."""
        self._begin(now)
        held = self._running.get(job_id)
        if held is not None and held.until < held.ends:
            if self._hours is not None:
                self._charge(held.group, held.gpus * (held.ends - held.until))
            held.until = held.ends

    def ends(self, job_id: int, now: float) -> float:
        """The GPU-seconds that the tally is to give back: what it has used stays used."""
        self._begin(now)
        held = self._running.pop(job_id, None)
        if held is None or self._hours is None:
            return 0.0
        self._hours.ends(held.group, job_id, self._began + now)
        return held.gpus * max(0.0, held.until - now)

    def advance(self, now: float) -> None:
        """Count as it is then."""
        self._begin(now)
        if self._hours is not None:
            self._hours.advance(self._began + now)

    def awaits(
        self, limited: Iterable[Pending], pools: Mapping[str, Pool], now: float
    ) -> Iterator[tuple[float, int]]:
        """When which limit may let go one of these, whom a quota keeps back."""
        if self._hours is None:
            return
        for limit, (charge, group) in self._least(limited, pools).items():
            at = self._hours.room_at(group, limit, charge, self._began + now)
            moment = math.inf if at is None else math.ceil(at - self._began)
            if moment < min(HORIZON_S, self._awaited.get(limit, math.inf)):
                self._awaited[limit] = moment
                yield moment, limit

    def lets_go(self, limit: int, now: float) -> bool:
        """Whether this was still waited for."""
        if self._awaited.get(limit) != now:
            return False
        del self._awaited[limit]
        return True

    def _least(
        self, limited: Iterable[Pending], pools: Mapping[str, Pool]
    ) -> dict[int, tuple[int, int]]:
        """By limit, what they need of it who need least."""
        found: dict[int, tuple[int, int]] = {}
        for job in limited:
            group = self._group(job)
            if self._tally.counters(group).micros:
                limit, shape = admit(job, pools[job.partition], self._tally)
                need = micros(shape.gpus * job.walltime_s), group
                found[limit] = min(need, found.get(limit, need))
        return found

    def _begin(self, now: float) -> None:
        """From time 0 on what was used counts, and what those that ran then may still use."""
        if not self._groups or self._hours is not None or now < 0:
            return
        hours = self._hours = Hours(self._tally, self._began)
        for counter in self._counters():
            counter.limit = counted(counter.rule.limited, counter.rule.limit)
            counter.taken = counter.used
        for group in self._groups:
            hours.know(group)
        for job_id, held in self._running.items():
            self._charge(held.group, held.gpus * max(0.0, held.until))
            self._tell(hours, job_id, held, 0.0)

    def _tell(self, hours: Hours, job_id: int, held: _Held, now: float) -> None:
        until = self._began + max(held.until, held.ends)
        hours.starts(held.group, job_id, self._began + now, until, held.gpus)

    def _charge(self, group: int, gpu_seconds: float) -> None:
        for counter in self._tally.counters(group).micros:
            counter.taken += micros(gpu_seconds)

    def _counters(self) -> Iterable[Counter]:
        found = (one for group in self._groups for one in self._tally.counters(group).micros)
        return {counter.index: counter for counter in found}.values()

    def _group(self, job: Pending) -> int:
        return self._tally.group(job.project_id, job.user_id, job.band)


def _keys(workload: Workload) -> set[Key]:
    """Whoever runs something, or has used something."""
    found = {(one.project_id, one.user_id, one.band) for one in workload.jobs}
    return found.union(*workload.usage.used.values())
