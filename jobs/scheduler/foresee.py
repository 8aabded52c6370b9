"""When each job that can start is expected to, with the spread of that."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

from jobs.bands import Band
from jobs.scheduler.forecast import Forecast
from jobs.scheduler.lines import Coming, Counted
from jobs.scheduler.pool import Pool
from jobs.scheduler.snapshot import DependencyState, Estimate, Pending, Running, Snapshot
from jobs.scheduler.tally import Tally

_NOBODY = -1
"""A project that has no limits."""


@dataclass(frozen=True)
class Lengths:
    """How long jobs are taken to run in one forecast."""

    pending: Callable[[Pending], float]
    running: Callable[[Running], datetime]


EARLY = Lengths(
    lambda job: job.spread_s[0] if job.spread_s else _expected(job),
    lambda job: job.early_end or job.expected_end or job.ends_by,
)
EXPECTED = Lengths(lambda job: _expected(job), lambda job: job.expected_end or job.ends_by)
LATE = Lengths(lambda job: job.walltime_s, lambda job: job.ends_by)
"""Every job uses its whole time limit."""


def _expected(job: Pending) -> float:
    return job.walltime_s if job.expected_s is None else job.expected_s


@dataclass(frozen=True)
class Foresight:
    """What forecasts are made from: the state after what this plan starts."""

    snapshot: Snapshot
    pools: Mapping[str, Pool]
    tally: Tally
    waiting: Sequence[Pending]
    """All that can start without anybody's doing, in their order; among them those who have to
    make room, as they will wait again."""
    started: Sequence[Pending]
    """Those that this plan starts."""
    now: datetime
    gone: Mapping[int, float] = field(default_factory=dict)
    """By when those are gone who this plan tells to stop."""
    counted: Mapping[int, float] = field(default_factory=dict)
    """As how many GPUs each of those counts that this plan starts."""
    aside: Container[int] = frozenset()
    """Who lets those start before for whom others leave."""

    def expected(self, about: Iterable[int] = ()) -> dict[int, datetime]:
        """By job id: when it is expected to start. `about`: of these at least."""
        found = self._kept(self._play(EXPECTED, about)) if about else self._usual
        return {
            job_id: self._moment(at) for job_id, at in found.items() if self._starts(job_id, at)
        }

    def estimates(self) -> dict[int, Estimate]:
        """By job id; for those whose start cannot be told there is none."""
        expected = self._usual
        told = any(job.spread_s or job.expected_s is not None for job in self.waiting)
        told = told or any(job.expected_end for job in self.snapshot.running)
        # Where there is no history, all three are the same.
        early, late = (self._play(EARLY), self._play(LATE)) if told else (expected, expected)
        late = self._kept(late)
        by = {job.id: job.starts_by for job in self.waiting if job.deadline_at is not None}
        return {
            job_id: Estimate(
                at=self._moment(at),
                early=self._moment(min(early.get(job_id, at), at)),
                late=self._moment(min(max(late.get(job_id, at), at), by.get(job_id, math.inf))),
            )
            for job_id, at in expected.items()
            if self._starts(job_id, at)
        }

    def too_late(self) -> frozenset[int]:
        """Those who are not expected to start in time to end before their deadlines."""
        return frozenset(job_id for job_id, at in self._usual.items() if at == math.inf)

    @cached_property
    def _usual(self) -> dict[int, float]:
        return self._kept(self._play(EXPECTED))

    def _kept(self, found: dict[int, float]) -> dict[int, float]:
        """No later than promised, as long as nobody of those before is expected sooner to whom
        nothing is promised, as an array's limit or somebody's end still keeps them back."""
        kept = dict(found)
        unpromised: dict[str, float] = defaultdict(lambda: math.inf)
        for job in self.waiting:
            at = found.get(job.id, math.inf)
            promise = self.pools[job.partition].promises.get(job.id)
            if promise is None or self._is_held_up(job):
                unpromised[job.partition] = min(at, unpromised[job.partition])
            elif promise.at < unpromised[job.partition]:
                kept[job.id] = min(at, promise.at)
        return kept

    def _is_held_up(self, job: Pending) -> bool:
        """Whether as many of its array run by now as its own limit allows: since it was promised a
        time, one has started that may run beside more."""
        return job.array_limit is not None and self._active[job.array_id] >= job.array_limit

    @cached_property
    def _active(self) -> Counter[int | None]:
        """How many of each array run or start now."""
        stay = (job.array_id for job in self.snapshot.running if job.id not in self.gone)
        return Counter([*stay, *(job.array_id for job in self.started)])

    def _waits(self, job_id: int) -> bool:
        return job_id not in self._running

    def _starts(self, job_id: int, at: float) -> bool:
        return at < math.inf and self._waits(job_id)

    def _moment(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, UTC)

    def expected_of(self, jobs: Sequence[Pending]) -> list[float | None]:
        """When each of these would start behind all that wait, if it alone was there; None if that
        cannot be told."""
        asked = []
        for number, job in enumerate(jobs):
            after = self._unfinished(job)
            if after is not None:
                coming = self._comes(job, len(self.waiting) + number)
                waits = replace(coming, id=-1 - number, takes=False)
                asked.append((waits, max(1.0, EXPECTED.pending(job)), after))
        about = [waits.id for waits, *_ in asked]
        found = self._play(EXPECTED, about, asked) if asked else {}
        moments = (found.get(-1 - number, math.inf) for number in range(len(jobs)))
        return [at if at < math.inf else None for at in moments]

    def _play(
        self,
        lengths: Lengths,
        about: Iterable[int] = (),
        more: Iterable[tuple[Coming, float, frozenset[int]]] = (),
    ) -> dict[int, float]:
        """`about`: those whose starts matter; empty: all. `more`: who waits beside the others."""
        mark = self.tally.mark()
        now = self.now.timestamp()
        forecast = Forecast(self.pools, self.tally, now)
        done = set()
        for job in self.snapshot.running:
            end = math.inf if job.is_stuck(now) else lengths.running(job).timestamp()
            by = self.gone.get(job.id, math.inf)
            forecast.runs(job.id, min(end, by), self._holdings.get(job.id))
            if not job.leaving and end <= by:
                done.add(job.id)
        for begun in self.started:
            counted = self._counted(begun, self.counted[begun.id])
            forecast.runs(begun.id, now + lengths.pending(begun), counted)
        for waits, coming, after in self._coming:
            if waits.id not in done:
                forecast.comes(coming, max(1.0, lengths.pending(waits)), after)
        for coming, runs_s, after in more:
            forecast.comes(coming, runs_s, after)
        found = forecast.play(about)
        self.tally.reset(mark)
        return found

    @cached_property
    def _coming(self) -> list[tuple[Pending, Coming, frozenset[int]]]:
        """All of whom it can be told when those have ended who have to before."""
        return [
            (job, self._comes(job, rank), after)
            for rank, job in enumerate(self.waiting)
            if (after := self._unfinished(job)) is not None
        ]

    def _comes(self, job: Pending, rank: int) -> Coming:
        shape = self.pools[job.partition].shape_of(job)
        return Coming(
            id=job.id,
            rank=rank,
            partition=job.partition,
            shape=shape,
            counted=self._counted(job, shape.gpus),
            limit_s=job.walltime_s,
            ready_at=self._ready_at(job),
            by=job.starts_by,
        )

    def _ready_at(self, job: Pending) -> float:
        begins = job.begin_at.timestamp() if job.begin_at else 0.0
        if job.id not in self.aside:
            return begins
        return max(begins, self.now.timestamp() + self.snapshot.policy.room_after_s + 1)

    def _counted(self, job: Pending, gpus: float) -> Counted:
        array = job.array_id if job.array_id in self._limited else None
        at_once = math.inf if job.array_limit is None else job.array_limit
        group = self.tally.group(job.project_id, job.user_id, job.band)
        seconds = gpus * job.walltime_s
        return Counted(group, gpus, seconds, array, self.tally.limits(group), at_once)

    @cached_property
    def _limited(self) -> set[int]:
        """The arrays of which some task waits for others of it to end."""
        jobs = (*self.snapshot.pending, *self.waiting)
        return {
            job.array_id for job in jobs if job.array_id is not None and job.array_limit is not None
        }

    @cached_property
    def _holdings(self) -> dict[int, Counted]:
        """How the jobs that run are counted."""
        arrays = {
            job.id: job.array_id for job in self.snapshot.running if job.array_id in self._limited
        }
        usage = self.snapshot.quota_usage
        nobody = self.tally.group(_NOBODY, _NOBODY, Band.BEST_EFFORT)
        found = {job_id: Counted(nobody, 0, 0, array) for job_id, array in arrays.items()}
        for held in usage.running if usage else ():
            asked = held.demand
            group = self.tally.group(asked.project_id, asked.user_id, asked.band)
            left = held.seconds_left(self.now) * asked.gpus
            array = arrays.get(asked.job_id)
            counted = Counted(group, asked.gpus, left, array, self.tally.limits(group))
            found[asked.job_id] = counted
        return found

    def _unfinished(self, job: Pending) -> frozenset[int] | None:
        """Who has to end before; None if it cannot be told when."""
        if job.id in self._running:
            return frozenset((job.id,))
        if job.dependency is not DependencyState.WAITING:
            return frozenset()
        # No task waits for all of its own array: of its like it waits for the first task.
        own = job.array_id if job.array_id in job.waits_for else None
        awaited = job.waits_for, own
        if awaited not in self._awaited:
            self._awaited[awaited] = self._all_of(*awaited)
        return self._awaited[awaited]

    def _all_of(self, ids: Iterable[int], own: int | None) -> frozenset[int] | None:
        """These jobs, and all tasks of the arrays among them; None if not all are known."""
        arrays = self._meant
        after = frozenset(
            one
            for other in ids
            for one in (arrays[other] if other in arrays and other != own else (other,))
        )
        return after if after and after <= self._known else None

    @cached_property
    def _awaited(self) -> dict[tuple[tuple[int, ...], int | None], frozenset[int] | None]:
        """What is found once is told to all that wait for the same, as arrays do."""
        return {}

    @cached_property
    def _running(self) -> set[int]:
        return {job.id for job in self.snapshot.running}

    @cached_property
    def _known(self) -> set[int]:
        jobs: tuple[Pending | Running, ...] = (
            *self.snapshot.running, *self.started, *self.waiting
        )  # fmt: skip
        return {job.id for job in jobs}

    @cached_property
    def _meant(self) -> dict[int, set[int]]:
        """An array's id stands for all of its tasks."""
        found: dict[int, set[int]] = defaultdict(set)
        jobs: tuple[Pending | Running, ...] = (*self.snapshot.running, *self.snapshot.pending)
        for job in jobs:
            if job.array_id is not None:
                found[job.array_id].add(job.id)
        return found
