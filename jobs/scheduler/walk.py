"""One walk along the queue: who starts, who is kept back, and what is known afterwards."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice

from jobs.lifecycle import HELD, Reason
from jobs.scheduler import explain
from jobs.scheduler.blockers import Blockers, Told
from jobs.scheduler.cluster import pools_of
from jobs.scheduler.counters import Counters
from jobs.scheduler.decide import Decided, Pass
from jobs.scheduler.excuse import Excuses
from jobs.scheduler.foresee import Foresight
from jobs.scheduler.limits import Usage
from jobs.scheduler.mix import mix
from jobs.scheduler.policy import Placing
from jobs.scheduler.pool import Pool
from jobs.scheduler.preempt import Preemption, Victim
from jobs.scheduler.rank import ranked
from jobs.scheduler.snapshot import Explanation, Pending, Running, Snapshot
from jobs.scheduler.waits import Arrays, Others, misses_deadline, own_waits

_STUCK = (
    *HELD,
    Reason.DEPENDENCY_NEVER,
    Reason.BAD_CONSTRAINTS,
    Reason.NODE_DOWN,
    Reason.PARTITION_DOWN,
)
"""Who waits so starts only once somebody does something; nobody knows when."""


@dataclass
class Walk:
    """Along the whole queue."""

    snapshot: Snapshot
    now: datetime
    pools: dict[str, Pool]
    counters: Counters
    room: Pass
    excuses: Excuses
    others: Others
    arrays: Arrays
    own: dict[int, Explanation] = field(default_factory=dict)
    """Of those that something of their own keeps back."""
    expired: list[int] = field(default_factory=list)
    startable: list[Pending] = field(default_factory=list)
    """All that start without anybody's doing, sooner or later, in their order."""
    aside: dict[str, list[Pending]] = field(default_factory=lambda: defaultdict(list))
    """By partition those that let others pass, and may be first again any time."""
    before: dict[int, int] = field(default_factory=dict)
    """By job id, how many of these are ahead of it."""

    @classmethod
    def of(cls, snapshot: Snapshot, now: datetime) -> Walk:
        usage = replace(snapshot.quota_usage or Usage(now), at=now)
        counters = Counters(snapshot.projects, snapshot.quotas, usage, snapshot.lends)
        pools = pools_of(snapshot, now.timestamp(), counters.tree)
        if snapshot.policy.placing is Placing.LEAST_FRAGMENTATION:
            for name, pool in pools.items():
                pool.mix = partial(mix, snapshot, name)
        moment = now.timestamp()
        victims = [_victim(job, counters, moment) for job in snapshot.running]
        preemption = Preemption(victims, counters, snapshot.policy, moment)
        room = Pass(pools, counters, snapshot.policy, moment, preemption)
        excuses = Excuses(pools, counters.tree)
        others, arrays = Others(snapshot), Arrays(snapshot.running)
        return cls(snapshot, now, pools, counters, room, excuses, others, arrays)

    def begin(self, queue: Iterable[Pending]) -> None:
        """All who are about to be taken."""
        claimed = (job for job in queue if job.claimed_at is not None)
        able = [job for job in claimed if self._kept_back(job) == []]
        self.room.keep_together(list(self._together(able)))

    def _together(self, jobs: Iterable[Pending]) -> Iterator[Pending]:
        """Those of them that may all start at once, as their arrays' limits allow."""
        begun: Counter[int | None] = Counter()
        for job in jobs:
            taken = self.arrays.taken(job.array_id) + begun[job.array_id]
            if job.array_limit is None or taken < job.array_limit:
                begun[job.array_id] += 1
                yield job

    def take(self, job: Pending) -> None:
        """The next job."""
        aside = self.aside[job.partition]
        self.before[job.id] = len(aside)
        kept = self._kept_back(job)
        if kept is None:
            self.expired.append(job.id)
            return
        if kept:
            self.own[job.id] = explain.together(kept)
        elif self._count(job, self.room.consider(job)):
            return
        startable = not _is_stuck(kept)
        if startable:
            self.startable.append(job)
        limited = self.room.decided.limited
        lets_pass = bool(kept) or bool(limited and limited[-1] is job)
        if job.held or (startable and lets_pass):
            aside.append(job)

    def _kept_back(self, job: Pending) -> list[Explanation] | None:
        """By what, beside the other jobs of the queue; None if its deadline can no longer be
        met."""
        if misses_deadline(job, self.now):
            return None
        own = own_waits(job, self.others, self.arrays, self.now)
        excuse = self.excuses.of(job)
        return own if excuse is None else [*own, excuse]

    def would_start(self, job: Pending) -> bool:
        """Whether this one, of which nothing is kept, could start if it was the next."""
        return self._kept_back(job) == [] and self.room.would_start(job)

    def is_startable(self, job: Pending) -> bool:
        """Whether it starts without anybody's doing, sooner or later."""
        kept = self._kept_back(job)
        return kept is not None and not _is_stuck(kept)

    def finish(self) -> Decided:
        """Serve those who borrow. Their array may have come to its limit meanwhile."""
        for job in self.room.borrowing:
            own = own_waits(job, self.others, self.arrays, self.now)
            if own:
                self.own[job.id] = explain.together(own)
            else:
                self._count(job, self.room.serve(job))
        return self.room.decided

    def _count(self, job: Pending, starts: bool) -> bool:
        """Against its array's limit, if it starts or is promised a time; whether it starts."""
        if starts:
            by = self.now.astimezone(UTC) + timedelta(seconds=job.walltime_s)
            self.arrays.add(job.array_id, by)
        elif job.array_id is not None and job.id in self.pools[job.partition].promises:
            self.arrays.promise(job.array_id)
        return starts

    def explanations(self) -> dict[int, Explanation]:
        """Of those that wait for room or for a quota."""
        decided = self.room.decided
        told = Told.of(self.snapshot.running, decided.preempted)
        tell = Blockers(self.pools, self.counters, self.others, told, self.now, decided.barred)
        ahead: Counter[str] = Counter()
        found = {}
        begun = {job.id for job in decided.started}
        for job in self.startable:
            if job.id in begun:
                continue
            if job.id not in self.own:
                aside = islice(self.aside[job.partition], self.before[job.id])
                found[job.id] = tell.explain(job, ahead[job.partition], aside)
            ahead[job.partition] += 1
        return found

    def with_deadlines(
        self, told: Mapping[int, Explanation], too_late: Container[int]
    ) -> dict[int, Explanation]:
        """What those are told who have one, with until when they can start."""
        jobs = [job for job in self.snapshot.pending if job.deadline_at and job.id in told]
        return {
            job.id: replace(
                told[job.id],
                more=(*told[job.id].more, explain.deadline(job, job.id in too_late, self.now)),
            )
            for job in jobs
        }

    def foresight(self, only: Container[int] | None = None) -> Foresight:
        """When the rest starts; `only`: as if of those who wait there were but these."""
        decided = self.room.decided
        begun = {job.id for job in decided.started}
        by = self.now.timestamp() + self.snapshot.policy.grace_s
        gone = {one.job_id: by for one in decided.preempted}
        rest = [job for job in self.startable if job.id not in begun]
        if only is not None:
            rest = [job for job in rest if job.id in only]
        waiting = self._with_victims(rest, gone)
        return Foresight(
            self.snapshot, self.pools, self.counters, waiting, decided.started, self.now, gone,
            decided.gpus, decided.aside,
        )  # fmt: skip

    def _with_victims(self, waiting: Sequence[Pending], gone: Container[int]) -> Sequence[Pending]:
        """Who waits, and who will again after having made room, in their order."""
        back = [
            job.again
            for job in self.snapshot.running
            if job.again is not None and (job.leaving or job.id in gone)
        ]
        if not back:
            return waiting
        return ranked(replace(self.snapshot, pending=(*waiting, *back)), self.now)


def _is_stuck(kept: Sequence[Explanation]) -> bool:
    return any(why.reason in _STUCK for why in kept)


def _victim(job: Running, counters: Counters, now: float) -> Victim:
    started = job.started_at.timestamp() if job.started_at else now
    return Victim(
        job_id=job.id,
        band=job.band,
        group=counters.group(job.project_id, job.user_id, job.band),
        gpus=job.gpus,
        started_at=started,
        saved_at=job.saved_at.timestamp() if job.saved_at else started,
        preempted=job.preemptions,
        leaving=job.leaving and not job.is_stuck(now),
        preemptible=job.preemptible and not job.leaving,
    )
