"""The jobs of a past time and the lab as it is now, for a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db.models import Q

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.rules import SpecError
from jobs.scheduler.limits import Quota, Usage
from jobs.scheduler.policy import Policy
from jobs.scheduler.simulate.measure import mean, quantile
from jobs.scheduler.simulate.quota_change import QuotaChange, changed_quotas
from jobs.scheduler.simulate.workload import Trial, Workload
from jobs.scheduler.snapshot import Node
from jobs.scheduler.words import count
from jobs.spec import JobSpec, Resources
from portal import models
from portal.models import Accounting, Attempt, Job
from portal.queries import accounts, machines, specs
from portal.queries.books import Books
from portal.queries.dependencies import after_alike, is_single

MOST_JOBS = 20_000
"""That are played: more would take too long, and too much memory."""


class TooMany(ValueError):
    """More jobs than may be played; the text says how many there are."""


class _Row(NamedTuple):
    """What is read of a job, by the names of its columns."""

    pk: int
    name: str
    owner_id: int
    project_id: int
    partition__name: str
    band: str
    nice: int
    walltime_s: int
    array_id: int | None
    state: str
    submitted_at: datetime
    waited_before_s: float
    spec: dict[str, object]


class _Past(NamedTuple):
    """What a job's attempts come to."""

    attempts: int
    first: datetime
    """When the first of them began."""
    last: datetime
    ran_s: float
    """All of them together."""


@dataclass(frozen=True)
class Real:
    """How it really was, with the policies and nodes of that time; a check of the model."""

    mean_wait_s: float
    median_wait_s: float
    p99_wait_s: float


@dataclass(frozen=True)
class Recorded:
    """All that a simulation of a past time needs."""

    workload: Workload
    policy: Policy
    real: Real
    jobs: int
    """Submitted in that time, and played."""
    before: int
    """Those that ran or waited when it began; they are played and not counted."""
    left_out: tuple[str, ...]
    """A sentence for each kind of jobs that are not played."""


def read(
    since: datetime, until: datetime, now: datetime, changes: Sequence[QuotaChange] = ()
) -> Recorded:
    """The jobs submitted in a time, in a constant number of queries, and what had been used before
    it of the GPU-hours that are limited now, or would be then. Raises `TooMany`."""
    rows = _rows(since, until, now)
    past = _pasts(since, until, now)
    specs = _specs(rows)
    legible = [row for row in rows if row.pk in specs]
    nodes = machines.reported()
    maker = _Maker(specs, past, nodes, since, legible)
    quotas = tuple(map(_played, accounts.quotas()))
    trials = tuple(maker.trial(row) for row in legible if row.pk in past)
    return Recorded(
        workload=Workload(
            name=f"{since:%F} to {until:%F}",
            jobs=trials,
            nodes=nodes,
            projects=accounts.projects(),
            quotas=quotas,
            lends=accounts.lends(),
            members=accounts.members(),
            weights=tuple((row.name, row.weights) for row in models.Partition.objects.all()),
            decay=Accounting.current().decay,
            usage=_usage((*quotas, *changed_quotas(quotas, changes, settings.TIME_ZONE)), since),
            time_zone=settings.TIME_ZONE,
        ),
        policy=accounts.policy(),
        real=_real([row for row in legible if row.pk in past and row.submitted_at >= since], past),
        jobs=sum(trial.counts for trial in trials),
        before=sum(not trial.counts for trial in trials),
        left_out=(
            *_left_out(row for row in legible if row.pk not in past),
            *_illegible(len(rows) - len(legible)),
        ),
    )


def number_of(since: datetime, until: datetime, now: datetime) -> int:
    """Of the jobs that would be looked at."""
    return Job.objects.filter(_of_that_time(since, until, now)).count()


def check_number(number: int) -> None:
    """Raises `TooMany`."""
    if number > MOST_JOBS:
        raise TooMany(
            f"{number:,} jobs are of that time, and at most {MOST_JOBS:,} can be played. "
            "Choose a shorter time."
        )


def _of_that_time(since: datetime, until: datetime, now: datetime) -> Q:
    submitted = Q(submitted_at__gte=since, submitted_at__lt=min(until, now))
    # Those that were there already when it began.
    there = Q(submitted_at__lt=since) & (Q(ended_at=None) | Q(ended_at__gt=since))
    return submitted | there


def _rows(since: datetime, until: datetime, now: datetime) -> list[_Row]:
    found = Job.objects.filter(_of_that_time(since, until, now)).order_by("submitted_at", "pk")
    rows = [_Row(*row) for row in found.values_list(*_Row._fields)[: MOST_JOBS + 1]]
    if len(rows) > MOST_JOBS:
        check_number(number_of(since, until, now))
    return rows


def _specs(rows: Iterable[_Row]) -> dict[int, JobSpec]:
    """Of those whose request this version can read."""
    found = {}
    for row in rows:
        try:
            found[row.pk] = specs.stored(row.spec)
        except SpecError:
            continue
    return found


def _pasts(since: datetime, until: datetime, now: datetime) -> dict[int, _Past]:
    """Of those that ever began."""
    jobs = Job.objects.filter(_of_that_time(since, until, now)).order_by().values("pk")
    attempts = Attempt.objects.filter(job__in=jobs).order_by("job_id", "number")
    found: dict[int, _Past] = {}
    for job_id, began, ended in attempts.values_list("job_id", "started_at", "ended_at"):
        end = ended or now
        known = found.get(job_id, _Past(0, began, end, 0.0))
        ran_s = known.ran_s + max(0.0, (end - began).total_seconds())
        found[job_id] = _Past(known.attempts + 1, known.first, max(known.last, end), ran_s)
    return found


class _Maker:
    """Rows into the simulation's jobs."""

    def __init__(
        self,
        specs: Mapping[int, JobSpec],
        past: Mapping[int, _Past],
        nodes: Sequence[Node],
        since: datetime,
        rows: Sequence[_Row],
    ) -> None:
        self._specs, self._past, self._since = specs, past, since
        self._arrays = {row.array_id for row in rows if row.array_id is not None}
        played = [row for row in rows if row.pk in past]
        single = {row.pk for row in played if is_single(specs[row.pk])}
        self._singles = after_alike(played, single)
        self._parts: dict[str, int] = {}
        for node in nodes:
            for gpu in node.gpus:
                known = self._parts.get(node.partition, 0)
                self._parts[node.partition] = max(known, gpu.shards)

    def trial(self, row: _Row) -> Trial:
        """Raises nothing: what cannot run any more is found out by who plays it."""
        spec, past = self._specs[row.pk], self._past[row.pk]
        return Trial(
            id=row.pk,
            submit_s=self._at(row, spec, past),
            run_s=max(1, round(past.ran_s)),
            gpus=self._gpus(spec.resources, row.partition__name),
            partition=row.partition__name,
            request_s=row.walltime_s,
            user_id=row.owner_id,
            project_id=row.project_id,
            band=Band(row.band),
            name=row.name,
            resources=spec.resources,
            nice=row.nice,
            after=self._after(row, spec),
            after_arrays=tuple(sorted(self._arrays & _awaited(spec))),
            array_id=row.array_id,
            array_limit=spec.array.limit if spec.array else None,
            counts=row.submitted_at >= self._since,
        )

    def _at(self, row: _Row, spec: JobSpec, past: _Past) -> int:
        """When it comes. What ran at the beginning came when it began, so that it runs then; what
        waited for room then comes with the beginning."""
        at = past.first
        if at >= self._since:
            at = max(came(row.submitted_at, row.waited_before_s, spec, past), self._since)
        return round((at - self._since).total_seconds())

    def _after(self, row: _Row, spec: JobSpec) -> tuple[int, ...]:
        alone = _awaited(spec) - self._arrays
        return tuple(sorted(alone.union(self._singles.get(row.pk, ()))))

    def _gpus(self, asked: Resources, partition: str) -> float:
        if asked.shards and self._parts.get(partition):
            return asked.nodes * asked.shards / self._parts[partition]
        return asked.gpus


def _awaited(spec: JobSpec) -> set[int]:
    """The jobs and arrays that it names."""
    return {wait.job_id for wait in spec.dependencies if wait.job_id is not None}


def came(submitted_at: datetime, waited_s: float, spec: JobSpec, past: _Past) -> datetime:
    """When nothing of its own kept it back any more: no hold, and no time to begin.

    What it came after is played, and so is not waited for here.
    """
    at = max(submitted_at, spec.begin_at or submitted_at)
    # How long it waited for room is written down at its start; of several starts not which.
    if spec.dependencies or past.attempts > 1 or not waited_s:
        return at
    return max(at, past.first - timedelta(seconds=waited_s))


def _played(quota: Quota) -> Quota:
    """Less what a trial leaves out."""
    return replace(quota, limits=replace(quota.limits, jobs_pending=None))


def _usage(quotas: Iterable[Quota], since: datetime) -> Usage:
    """What counted against these when the time began, but for those that ran: they are played."""
    return replace(accounts.counted(Books.read(since), quotas), running=(), pending={})


def _real(rows: Iterable[_Row], past: Mapping[int, _Past]) -> Real:
    waits = [_waited(row, past[row.pk]) for row in rows]
    return Real(mean(waits), quantile(waits, 0.5), quantile(waits, 0.99))


def _waited(row: _Row, past: _Past) -> float:
    """As it was written down; for jobs of before that was done, all but their runs."""
    if row.waited_before_s:
        return row.waited_before_s
    return max(0.0, (past.last - row.submitted_at).total_seconds() - past.ran_s)


def _left_out(rows: Iterable[_Row]) -> Iterable[str]:
    waiting = ended = 0
    for row in rows:
        waiting += row.state == State.PENDING
        ended += row.state != State.PENDING
    if waiting:
        yield f"{count(waiting, 'job')} still waiting"
    if ended:
        yield f"{count(ended, 'job')} ended before ever starting"


def _illegible(jobs: int) -> Iterable[str]:
    if jobs:
        yield f"{count(jobs, 'job')} whose request this version cannot read"
