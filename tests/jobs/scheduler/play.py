"""A cluster played forward in time: plans are carried out, jobs end, who had to go comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from jobs.bands import Band
from jobs.scheduler.fairshare import Association
from jobs.scheduler.plan import Decision
from jobs.scheduler.pool import Pool
from jobs.scheduler.snapshot import Pending, Plan, Preempted, Running, Snapshot
from jobs.scheduler.usage import Decay
from tests.jobs.scheduler.clusters import NOW
from tests.jobs.scheduler.recount import applied, without

Lengths = Callable[[int, int], int]
"""By job id and its time limit in seconds: how long it really runs."""


def cut_short(seed: int) -> Lengths:
    """Some end at their limits, others long before."""
    return lambda job_id, limit: max(1, round(limit * Random(f"{job_id} {seed}").choice([0.3, 1])))


class Play:
    """The cluster `snapshot` at `now`, and what became of the jobs.

    With `decay` what runs is charged to the usage that fair share looks at.
    """

    def __init__(
        self, snapshot: Snapshot, lengths: Lengths = lambda _, limit: limit,
        decay: Decay | None = None,
    ) -> None:  # fmt: skip
        self.snapshot = snapshot
        self.now = NOW
        self.started: dict[int, datetime] = {}
        """When each first did."""
        self.preempted: list[Preempted] = []
        self.promised: dict[int, float] = {}
        """By the last pass: for when, in seconds since the epoch."""
        self.usage: dict[Association, float] = dict(snapshot.usage)
        self._lengths = lengths
        self._decay = decay
        self._ends = {job.id: self._end_of(job) for job in snapshot.running}
        self._known = {job.id: job for job in snapshot.pending}
        self._times: dict[int, int] = {}
        """How often each had to go in a row."""

    def _end_of(self, job: Running) -> datetime:
        left = max(1, round((job.ends_by - self.now).total_seconds()))
        return self.now + timedelta(seconds=self._lengths(job.id, left))

    def submit(self, jobs: Iterable[Pending]) -> None:
        more = tuple(jobs)
        self._known |= {job.id: job for job in more}
        self.snapshot = replace(self.snapshot, pending=self.snapshot.pending + more)

    def decide(self, explained: bool = False) -> Plan:
        """One pass, carried out."""
        decision = Decision(self.snapshot, self.now)
        decided = decision.explained() if explained else decision.plan
        self.promised = _promised(_pools(decision))
        after = applied(self.snapshot, decided, self.now)
        begun = {start.job_id for start in decided.starts}
        for job_id in begun:
            self.started.setdefault(job_id, self.now)
            limit = self._known[job_id].walltime_s
            self._ends[job_id] = self.now + timedelta(seconds=self._lengths(job_id, limit))
        active = [
            replace(job, preemptions=self._times.get(job.id, 0)) if job.id in begun else job
            for job in after.running
        ]
        gone = {one.job_id for one in decided.preempted}
        claims = {one.for_id for one in decided.preempted}
        grace = self.now + timedelta(seconds=self.snapshot.policy.grace_s)
        for job_id in gone:
            self._ends[job_id] = min(self._ends[job_id], grace)
        self.preempted += decided.preempted
        self.snapshot = replace(
            after,
            running=tuple(
                replace(job, leaving=True, ends_by=min(job.ends_by, grace))
                if job.id in gone
                else job
                for job in active
            ),
            pending=tuple(
                replace(job, claimed_at=job.claimed_at or self.now) if job.id in claims else job
                for job in after.pending
            ),
        )
        return decided

    def advance(self, until: datetime | None = None) -> bool:
        """To the next end, or to that moment if nobody ends before; False if nothing runs."""
        if not self.snapshot.running and until is None:
            return False
        ends = [self._ends[job.id] for job in self.snapshot.running]
        moment = min(ends + ([until] if until else []))
        self._charge(moment)
        self.now = moment
        over = [job for job in self.snapshot.running if self._ends[job.id] <= moment]
        self.snapshot = without(self.snapshot, [job.id for job in over])
        usage = self.snapshot.quota_usage
        self.snapshot = replace(
            self.snapshot,
            pending=self.snapshot.pending + tuple(filter(None, map(self._back, over))),
            usage=tuple(sorted(self.usage.items())),
            quota_usage=replace(usage, at=moment) if usage else None,
        )
        return True

    def _back(self, job: Running) -> Pending | None:
        """Who had to go waits again, from the beginning."""
        if not job.leaving or job.id not in self._known:
            return None
        self._times[job.id] = self._times.get(job.id, 0) + 1
        return self._known[job.id]

    def _charge(self, moment: datetime) -> None:
        if self._decay is None:
            return
        elapsed = (moment - self.now).total_seconds()
        for association in self.usage:
            self.usage[association] *= self._decay.factor(elapsed)
        for job in self.snapshot.running:
            key = (job.project_id, job.user_id)
            charge = job.gpus * self._decay.integral(elapsed)
            self.usage[key] = self.usage.get(key, 0.0) + charge


def settle(
    play: Play, come: list[Pending], arrive: Callable[[], int], *, rounds: int, step_s: int
) -> None:
    """Play until nothing changes any more; in each round so many of `come` do as `arrive` says.

    Asserts that it does settle, and that others have to go for a job once: then it starts, unless
    one of a higher band comes, or one starts that goes before it.
    """
    bands = {job.id: job.band for job in come}
    made: list[int] = []
    """Those for whom others had to go, and whose turn it is therefore."""
    for _ in range(rounds):
        for job in [come.pop() for _ in range(min(arrive(), len(come)))]:
            made = [job_id for job_id in made if bands[job_id].rank >= job.band.rank]
            play.submit([job])
        decided = play.decide()
        for start in decided.starts:
            made = _without_overtaken(made, start.job_id, bands)
        asking = dict.fromkeys(one.for_id for one in decided.preempted)
        assert not asking.keys() & made, "they did not get the room"
        made += asking
        changed = come or decided.starts or decided.preempted
        if not play.advance(play.now + timedelta(seconds=step_s) if changed else None):
            return
    raise AssertionError("it goes on and on")


def _without_overtaken(made: list[int], begun: int, bands: Mapping[int, Band]) -> list[int]:
    """Those who still go before all others: of a higher band, or asked before it in its own."""
    earlier = made[: made.index(begun)] if begun in made else made
    return [
        job_id
        for job_id in made
        if bands[job_id].rank > bands[begun].rank
        or (bands[job_id] is bands[begun] and job_id in earlier)
    ]


def promises(snapshot: Snapshot, now: datetime) -> dict[str, Pool]:
    """The partitions after a pass, with what it promises; none if nobody waits."""
    return _pools(Decision(snapshot, now))


def promised(snapshot: Snapshot, now: datetime) -> dict[int, float]:
    """By job id, for when, in seconds since the epoch."""
    return _promised(promises(snapshot, now))


def _pools(decision: Decision) -> dict[str, Pool]:
    return decision._walk.pools if decision._walk else {}


def _promised(pools: dict[str, Pool]) -> dict[int, float]:
    return {job_id: one.at for pool in pools.values() for job_id, one in pool.promises.items()}
