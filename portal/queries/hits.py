"""The jobs that a change concerns, as pages name them: the first few, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from jobs.scheduler.compare import Difference
from portal.models import Job

MOST = 20
"""Of each kind that are named; the rest is counted."""


@dataclass(frozen=True)
class Hit:
    """A job that a change concerns, and why."""

    job: Job
    why: str = ""


@dataclass(frozen=True)
class Named:
    """Jobs of one kind."""

    hits: list[Hit]
    count: int


@dataclass(frozen=True)
class Turn:
    """Whose turn it is in a partition, and whose it would be."""

    partition: str
    before: Job
    after: Job


@dataclass(frozen=True)
class Start:
    """When a job is expected to start, None where nobody can tell, and when it would be."""

    job: Job
    before: datetime | None
    after: datetime


@dataclass(frozen=True)
class Planned:
    """A `Difference` with the jobs themselves."""

    turns: list[Turn]
    starting: Named
    kept_waiting: Named
    preempted: Named
    exposed: Named
    safe: Named
    lost: Named
    starts: list[Start]
    starts_count: int

    @property
    def any(self) -> bool:
        """Whether the next pass would do anything else than it does as it is."""
        kinds = (
            self.starting, self.kept_waiting, self.preempted, self.exposed, self.safe, self.lost,
        )  # fmt: skip
        return bool(self.turns or self.starts_count or any(kind.count for kind in kinds))


def hits(why: Mapping[int, str]) -> list[Hit]:
    """By their ids, each with its reason."""
    ids = sorted(why)[:MOST]
    rows = Job.objects.select_related("owner").in_bulk(ids)
    return [Hit(rows[pk], why[pk]) for pk in ids if pk in rows]


def planned(found: Difference) -> Planned:
    """In one query."""
    rows = Job.objects.select_related("owner").in_bulk(_shown(found))
    reasons = {
        one.job_id: f"It would make room for job {rows[one.for_id].label}."
        for one in found.preempted[:MOST]
        if one.for_id in rows
    }

    def named(ids: Iterable[int], why: Mapping[int, str] | None = None) -> Named:
        every = list(ids)
        there = [rows[pk] for pk in every[:MOST] if pk in rows]
        return Named([Hit(job, (why or {}).get(job.pk, "")) for job in there], len(every))

    return Planned(
        turns=[
            Turn(one.partition, rows[one.before], rows[one.after])
            for one in found.first
            if one.before in rows and one.after in rows
        ],
        starting=named(found.starting),
        kept_waiting=named(found.kept_waiting),
        preempted=named((one.job_id for one in found.preempted), reasons),
        exposed=named(found.exposed),
        safe=named(found.safe),
        lost=named((one.job_id for one in found.lost), {one.job_id: one.why for one in found.lost}),
        starts=[
            Start(rows[one.job_id], one.before, one.after)
            for one in found.moved[:MOST]
            if one.job_id in rows
        ],
        starts_count=len(found.moved),
    )


def _shown(found: Difference) -> set[int]:
    """The ids of all that are named."""
    told = {pk for one in found.preempted[:MOST] for pk in (one.job_id, one.for_id)}
    turns = {pk for one in found.first for pk in (one.before, one.after)}
    lists = (found.starting, found.kept_waiting, found.exposed, found.safe)
    rest = {pk for ids in lists for pk in ids[:MOST]}
    starts = {one.job_id for one in found.moved[:MOST]} | {one.job_id for one in found.lost[:MOST]}
    return told | turns | rest | starts
