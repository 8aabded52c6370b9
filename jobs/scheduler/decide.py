"""Who starts now: the heart of a pass.

Jobs are taken in their order. One that fits starts, unless that would delay what a job before it
is promised. One that does not fit is promised the first moment at which it surely will, as long
as promises are left (EASY backfill, Lifka 1995, for more than the first job, and in time exact to
the GPU). One that surely fits only when it could no longer end before its deadline is promised
nothing, keeps nobody back, and leaves the promises to others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jobs.scheduler.admit import admit, gpus_of
from jobs.scheduler.claims import Barred, Claims, Swap
from jobs.scheduler.policy import Backfill, Policy
from jobs.scheduler.pool import Pool
from jobs.scheduler.preempt import Preemption
from jobs.scheduler.shape import Shape
from jobs.scheduler.site import Site
from jobs.scheduler.snapshot import Pending, Preempted, Start
from jobs.scheduler.tally import BORROWS, FITS, Tally

VAIN = 64
"""For so many of a partition who miss their deadlines a pass searches for a place, or for others
who could leave; then it promises nothing to anybody who has one. Of most it is known without."""

ASKING = 32
"""For so many more of a partition, to whom nothing is promised, a pass searches for others who
could leave. Of those whom nobody's leaving would help and who ask alike for the same user only the
first counts."""
TRYING = 2000
"""Nor for any more once it has looked so often who fits without whom: requests may all differ."""


@dataclass(slots=True)
class Decided:
    """What became of the jobs that nothing of their own keeps back, each in their order."""

    starts: list[Start] = field(default_factory=list)
    started: list[Pending] = field(default_factory=list)
    gpus: dict[int, float] = field(default_factory=dict)
    """By job id, as how many those that start count where they are."""
    waiting: list[Pending] = field(default_factory=list)
    """For room."""
    limited: list[Pending] = field(default_factory=list)
    """For a quota, whether or not there is room."""
    barred: dict[int, Barred] = field(default_factory=dict)
    """By job id, whom of these the quota keeps back that others before them are promised."""
    aside: set[int] = field(default_factory=set)
    """Those of them for whom there is room, but others have just been told to leave for those."""
    preempted: list[Preempted] = field(default_factory=list)


class Pass:
    """One walk along the queue: `consider` each job in its order, then `finish`."""

    def __init__(
        self,
        pools: Mapping[str, Pool],
        tally: Tally,
        policy: Policy,
        now: float,
        preemption: Preemption | None = None,
    ) -> None:
        self._pools = pools
        self._tally = tally
        self._policy = policy
        self._now = now
        self._preemption = preemption
        self._claims = Claims(tally)
        self._swap = Swap(tally, preemption.leaving if preemption else ())
        self._blocked: dict[str, int] = dict.fromkeys(pools, 0)
        """How many wait for room, and not in vain."""
        self._vain: dict[str, int] = dict.fromkeys(pools, 0)
        """For how many that miss their deadlines it was searched."""
        self._asked: dict[str, int] = dict.fromkeys(pools, 0)
        """For how many to whom nothing is promised others were asked to leave, with or without
        success."""
        self._helped: set[int] = set()
        """For whom others were told to leave in this pass."""
        self.borrowing: list[Pending] = []
        """To be served last: they would run on what others do not use, and nobody has made room
        for them yet."""
        self.decided = Decided()

    def keep_together(self, claimed: Sequence[Pending]) -> None:
        """Promise all for whom others have made room, and who would fit now, places side by side,
        the largest first: who was first, and took the fullest nodes, could leave the next none.
        Where they do not all fit they take their turns."""
        able = [job for job in claimed if self._fits(job)] if len(claimed) > 1 else []
        able.sort(key=lambda job: -job.resources.gpus_per_node)
        if not all(self._promise_now(job) for job in able):
            for job in able:
                self._pools[job.partition].withdraw(job.id)

    def _fits(self, job: Pending) -> bool:
        fits = self._admit(job)[0] in (FITS, BORROWS) and self._promise_now(job)
        self._pools[job.partition].withdraw(job.id)
        return fits

    def _promise_now(self, job: Pending) -> bool:
        pool, (_, shape), now = self._pools[job.partition], self._admit(job), self._now
        return pool.promise(job.id, shape, float(job.walltime_s), now, now) is not None

    def consider(self, job: Pending) -> bool:
        """Start it, or promise it a time, or leave it waiting; whether it starts."""
        verdict, shape = self._admit(job)
        # What others made room for is not taken by them again meanwhile.
        if verdict == BORROWS and job.claimed_at is None:
            self.borrowing.append(job)
            return False
        return self._serve(job, shape, verdict)

    def would_start(self, job: Pending) -> bool:
        """Whether it could, if it was the next, and nobody had borrowed before it; nothing comes
        of it."""
        verdict, shape = self._admit(job)
        pool = self._pools[job.partition]
        promises = tuple(pool.promises.values())
        site = self._site(job, pool, shape) if verdict in (FITS, BORROWS) else None
        pool.restore(promises)
        return site is not None and self._robs(job, shape, site) is None

    def finish(self) -> Decided:
        """Serve those who would have to borrow."""
        for job in self.borrowing:
            self.serve(job)
        return self.decided

    def serve(self, job: Pending) -> bool:
        """The same for one who may borrow; whether it starts."""
        verdict, shape = self._admit(job)
        return self._serve(job, shape, verdict)

    def _admit(self, job: Pending) -> tuple[int, Shape]:
        return admit(job, self._pools[job.partition], self._tally)

    def _group(self, job: Pending) -> int:
        return self._tally.group(job.project_id, job.user_id, job.band)

    def _serve(self, job: Pending, shape: Shape, verdict: int) -> bool:
        pool = self._pools[job.partition]
        if job.claimed_at is not None and pool.withdraw(job.id) is not None:
            shape.fails_from = math.inf
        if verdict not in (FITS, BORROWS):
            # What is missing may be lent out.
            self._ask(job, pool, shape, verdict)
            self.decided.limited.append(job)
            return False
        site = self._site(job, pool, shape)
        barred = self._robs(job, shape, site) if site is not None else None
        if site is not None and barred is None:
            self._start(job, pool, shape, site)
            return True
        if barred is not None:
            self.decided.aside.add(job.id)
        else:
            barred = self._claims.barring(*self._asks(job, shape.gpus))
        if barred is not None:
            self.decided.barred[job.id] = barred
            self.decided.limited.append(job)
            return False
        self.decided.waiting.append(job)
        # What others made room for is kept, however many are promised a time.
        left = self._blocked[job.partition] < self._policy.reservations
        if left or job.claimed_at is not None:
            self._blocked[job.partition] += self._keep(job, pool, shape, verdict)
            self._claim(job, pool)
        else:
            self._ask(job, pool, shape, verdict)
        return False

    def _ask(self, job: Pending, pool: Pool, shape: Shape, verdict: int) -> None:
        """Make others leave for it, and keep their place for it, however many are promised one."""
        asked = self._preemption
        if asked and asked.tried < TRYING and self._asked[job.partition] < ASKING:
            self._asked[job.partition] += self._preempt(job, pool, shape, verdict)
            self._claim(job, pool)

    def _keep(self, job: Pending, pool: Pool, shape: Shape, verdict: int) -> bool:
        """Keep a place for it, if others have to leave for that; False if it comes too late."""
        if job.deadline_at is not None and self._vain[job.partition] >= VAIN:
            return False
        known = pool.is_late(shape, float(job.walltime_s), job.starts_by)
        late = known or self._misses(job, pool, shape)
        promise, tried = pool.promises.get(job.id), False
        if promise is None or promise.at > self._now + self._policy.grace_s + 1:
            tried = self._preempt(job, pool, shape, verdict)
        if not late or job.id in pool.promises:
            return True
        self._vain[job.partition] += tried or not known
        return False

    def _claim(self, job: Pending, pool: Pool) -> None:
        """What it is going to need of its quota is promised to nobody else."""
        promise = pool.promises.get(job.id)
        if promise is None:
            return
        asks = self._asks(job, gpus_of(promise.shape, promise.site))
        self._claims.make(job.id, *asks)
        if job.claimed_at is not None or job.id in self._helped:
            self._swap.comes(job.id, *asks)

    def _asks(self, job: Pending, gpus: float) -> tuple[int, float, float]:
        return self._group(job), gpus, gpus * job.walltime_s

    def _preempt(self, job: Pending, pool: Pool, shape: Shape, verdict: int) -> bool:
        """Make others leave for it, if that helps, and keep their place for it; whether it was
        tried."""
        asked, group = self._preemption, self._group(job)
        if asked is None or not asked.may_help(job, group, shape, verdict):
            return False
        old = pool.withdraw(job.id)
        victims = asked.make_room(job, group, pool, shape, float(job.walltime_s))
        for victim in victims or ():
            self.decided.preempted.append(Preempted(victim.job_id, job.id))
            self._swap.leaves(victim.group, victim.gpus)
            self._helped.add(job.id)
        if victims or (victims is not None and old is None):
            pool.promise(job.id, shape, job.walltime_s, self._now, job.starts_by)
        elif old is not None:
            pool.give(old)
        return True

    def _site(self, job: Pending, pool: Pool, shape: Shape) -> Site | None:
        """Where it may start now; None if nowhere."""
        if self._blocked[job.partition] and self._policy.backfill is Backfill.NONE:
            return None
        length = float(job.walltime_s)
        elsewhere = self._policy.backfill is not Backfill.EASY
        site = pool.find(shape, length, self._now, elsewhere)
        if site is None or not shape.varies:
            return site
        gpus = gpus_of(shape, site)
        verdict = self._tally.check(self._group(job), gpus, gpus * length)
        return site if verdict in (FITS, BORROWS) else None

    def _robs(self, job: Pending, shape: Shape, site: Site) -> Barred | None:
        """What it would take of those for whom others make room, if it started there."""
        if job.claimed_at is not None:
            return None
        return self._swap.barring(*self._asks(job, gpus_of(shape, site)))

    def _start(self, job: Pending, pool: Pool, shape: Shape, site: Site) -> None:
        length, gpus = float(job.walltime_s), gpus_of(shape, site)
        placements = pool.start(job.id, site, self._now + length)
        self._tally.add(self._group(job), gpus, gpus * length)
        self.decided.gpus[job.id] = gpus
        self.decided.starts.append(Start(job.id, placements))
        self.decided.started.append(job)

    def _misses(self, job: Pending, pool: Pool, shape: Shape) -> bool:
        """Promise it a time, where that is done; whether it has a deadline, and is to miss it."""
        asked = job.id, shape, float(job.walltime_s), self._now, job.starts_by
        if self._policy.backfill in (Backfill.RESERVING, Backfill.EASY):
            found = pool.promise(*asked)
        elif job.deadline_at is not None:
            found = pool.foresee(*asked)
        else:
            return False
        return found is None and job.deadline_at is not None
