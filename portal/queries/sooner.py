"""What the owner of a waiting job could change for it to start sooner, tried at this moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import Max

from jobs.bands import Band
from jobs.scheduler.advise import Advice, advise
from jobs.scheduler.snapshot import Pending
from jobs.scheduler.work import Work
from jobs.spec import JobSpec
from jobs.spec_json import to_dict
from portal.models import Event, Job, Partition
from portal.queries import dependencies, history, partitions, snapshot, specs
from portal.queries.admission import Admission, Grounds

Changes = dict[str, list[Any]]
"""By field of a stored specification: what it is, and what it becomes."""


class NotReached(Exception):
    """So many wait that a pass does not look at this job, or it waits no more."""


@dataclass(frozen=True)
class Found:
    """The one change that starts a job soonest."""

    advice: Advice
    changes: Changes
    """Of its request; empty where it is to be released as it is."""


def found(job: Job, now: datetime) -> Found | None:
    """None if no change starts it noticeably sooner.

    Several whole passes: seconds where thousands wait. Raises `NotReached`.
    """
    present = snapshot.take(now)
    waits = next((one for one in present.pending if one.id == job.pk), None)
    if waits is None:
        raise NotReached
    if waits.unreadable:
        return None
    spec = request(job)
    grounds = Grounds()
    places, bands = _partitions(job, spec, now, grounds), _bands(job, spec, now, grounds)
    advice = advise(present, job.pk, now, places, bands, partial(_foretold, job))
    return Found(advice, _changes(job, spec, waits, advice.job)) if advice else None


def last_event() -> int:
    """As long as it is the same nobody came, went, or changed what decides."""
    return Event.objects.aggregate(last=Max("pk"))["last"] or 0


def request(job: Job) -> JobSpec:
    """What a job asks for where it waits, less its script. Raises `SpecError`."""
    # A partition may have been renamed since, and the band was perhaps the usual one there.
    spec = specs.stored(job.spec)
    return replace(spec, partition=job.partition.name, band=Band(job.band))


def is_taken(
    job: Job, spec: JobSpec, partition: Partition, band: Band, now: datetime, grounds: Grounds
) -> bool:
    """Whether this waiting job would be taken in there."""
    longest = partition.max_walltime_s
    too_long = longest is not None and spec.walltime_s > longest
    if too_long or band not in partition.bands_for(job.owner):
        return False
    there = replace(spec, band=band)
    asked = Admission(job.owner, job.project, partition, there, waits=band == job.band)
    return asked.never(grounds) is None and asked.too_many(now) is None


def _partitions(job: Job, spec: JobSpec, now: datetime, grounds: Grounds) -> Iterator[str]:
    """The practice lab is no place for work, nor the reverse."""
    practice = job.partition.name == partitions.PRACTICE
    for other in partitions.for_jobs().exclude(pk=job.partition_id):
        same = (other.name == partitions.PRACTICE) == practice
        if same and is_taken(job, spec, other, Band(job.band), now, grounds):
            yield other.name


def _bands(job: Job, spec: JobSpec, now: datetime, grounds: Grounds) -> Iterator[Band]:
    """Best-effort, which counts against no quota."""
    band = Band.BEST_EFFORT
    if job.band != band and is_taken(job, spec, job.partition, band, now, grounds):
        yield band


def _foretold(job: Job, asked: Sequence[Pending]) -> Sequence[Pending]:
    """With how long each is expected to run: it goes on from what it has saved."""
    about = job.owner_id, job.project_id, job.name
    works = {
        place: Work.of(*about, other.resources, other.walltime_s)
        for place, other in enumerate(asked)
    }
    served = history.served([job.pk]).get(job.pk, 0.0) if job.preemptions else 0.0
    known = history.predictions(works, dict.fromkeys(works, served))
    return [snapshot.expecting(other, known.get(place)) for place, other in enumerate(asked)]


def _changes(job: Job, spec: JobSpec, waits: Pending, other: Pending) -> Changes:
    no_more = frozenset(waits.waits_for).difference(other.waits_for)
    changed = replace(
        spec,
        resources=other.resources,
        walltime_s=other.walltime_s,
        partition=other.partition,
        band=other.band,
        array=replace(spec.array, limit=other.array_limit) if spec.array else None,
        dependencies=dependencies.without(job, spec, no_more) if no_more else spec.dependencies,
        begin_at=other.begin_at,
        deadline_at=other.deadline_at,
    )
    old, new = to_dict(spec), to_dict(changed)
    return {name: [old[name], new[name]] for name in old if old[name] != new[name]}
