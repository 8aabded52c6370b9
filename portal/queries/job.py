"""One job as its page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Prefetch

from jobs.lifecycle import State
from portal.models import Allocation, Attempt, Checkpoint, Event, Job, Lease
from portal.queries.arrays import Summary, summaries

SHOWN_EVENTS = 200
SHOWN_CHECKPOINTS = 100


def find(pk: int) -> Job | None:
    """The job with its people and places, without its script."""
    return (
        Job.objects.select_related("owner", "project", "partition", "cancelled_by", "relaunch_of")
        .filter(pk=pk)
        .first()
    )


def attempts(job: Job) -> list[Attempt]:
    """The latest first, each with its allocations by rank and their GPUs."""
    leases = Lease.objects.select_related("gpu").order_by("gpu__index")
    parts = (
        Allocation.objects.select_related("node")
        .prefetch_related(Prefetch("leases", leases))
        .order_by("rank")
    )
    return list(job.attempts.order_by("-number").prefetch_related(Prefetch("allocations", parts)))


@dataclass(frozen=True)
class LoggedRun:
    """The allocation whose log is wanted, with those it could have been."""

    allocation: Allocation
    allocations: tuple[Allocation, ...]
    """Of the same attempt, by rank."""
    attempts: tuple[int, ...]
    """Numbers, ascending."""

    @property
    def attempt(self) -> int:
        return self.allocation.attempt.number

    @property
    def latest(self) -> bool:
        return self.attempt == self.attempts[-1]


def run(job: Job, query: Mapping[str, str]) -> LoggedRun | None:
    """The allocation that `?attempt=` and `?rank=` name: by default rank 0 of the last attempt.

    None when there is none: the job has not started, or has no such attempt or rank.
    """
    numbers = tuple(job.attempts.order_by("number").values_list("number", flat=True))
    if not numbers:
        return None
    number = _small(query.get("attempt") or str(numbers[-1]))
    rank = _small(query.get("rank", "0"))
    if number is None or rank is None:
        return None
    found = tuple(
        Allocation.objects.filter(attempt__job=job, attempt__number=number)
        .select_related("attempt", "node")
        .order_by("rank")
    )
    wanted = next((part for part in found if part.rank == rank), None)
    return LoggedRun(wanted, found, numbers) if wanted else None


def _small(text: str) -> int | None:
    """A number as our own links have them; None for anything else that a URL may say."""
    return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else None


def events(job: Job) -> list[Event]:
    """The latest first, at most `SHOWN_EVENTS`."""
    return list(job.events.select_related("actor", "node").order_by("-id")[:SHOWN_EVENTS])


def checkpoints(job: Job) -> list[Checkpoint]:
    """The latest first, at most `SHOWN_CHECKPOINTS`."""
    found = job.checkpoints.select_related("node", "attempt")
    return list(found.order_by("-modified_at", "-id")[:SHOWN_CHECKPOINTS])


def waits_since(job: Job, latest: Attempt | None) -> datetime:
    """Since its latest attempt ended, or else since it was submitted."""
    return latest.ended_at if latest and latest.ended_at else job.submitted_at


def complete_checkpoints(job: Job) -> list[Checkpoint]:
    """Those that a relaunch may go on from, the latest first."""
    found = job.checkpoints.filter(complete=True).select_related("node")
    return list(found.order_by("-modified_at", "-id")[:SHOWN_CHECKPOINTS])


def resumable(job: Job) -> bool:
    """Whether there is a complete checkpoint that a relaunch may go on from."""
    return job.checkpoints.filter(complete=True).exists()


def array_states(job: Job) -> dict[State, int]:
    """How many jobs of this job's array are in which state; empty for a job of its own."""
    if job.array_id is None:
        return {}
    counted = (
        Job.objects.filter(array_id=job.array_id)
        .values_list("state")
        .annotate(jobs=Count("pk"))
        .order_by("state")
    )
    return {State(state): number for state, number in counted}


@dataclass(frozen=True)
class Awaited:
    """One of a job's dependencies."""

    kind: str
    """Slurm's word."""
    job: Job | None
    """None for a job that is no longer known, and for earlier jobs of its name."""
    array: Summary | None
    """Given where all of an array is meant, whose first task has the same id."""


def awaited(job: Job) -> list[Awaited]:
    """What it depends on."""
    waits = job.spec.get("dependencies") or []
    ids = {wait["job_id"] for wait in waits if wait["job_id"]}
    jobs = Job.objects.in_bulk(ids) if ids else {}
    arrays = summaries(ids)
    return [
        Awaited(wait["kind"], jobs.get(wait["job_id"]), arrays.get(wait["job_id"]))
        for wait in waits
    ]
