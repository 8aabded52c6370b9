"""Why a job waits: what is in its way, who holds that, and what decides about its turn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import OuterRef, Q, Subquery
from django.utils import timezone

from jobs.bands import Band
from jobs.lifecycle import NO_TURN
from jobs.rules import SpecError
from jobs.scheduler.fairshare import Standing, standings
from jobs.scheduler.policy import Order
from jobs.scheduler.predict import Prediction
from jobs.scheduler.priority import Factors, Priority, priority
from jobs.scheduler.snapshot import LATE_S
from jobs.scheduler.turn import Turn, turn
from jobs.scheduler.work import Work
from jobs.spec import Resources
from jobs.spec_json import resources
from portal.models import Attempt, Gpu, Job
from portal.queries import accounts, history, machines, rows, snapshot, specs
from portal.queries.books import Books
from portal.queries.rows import Position

LABEL = r"[0-9]{1,18}(?:_[0-9]{1,9})?\b"
JOBS_NAMED = re.compile(rf"\b[Jj]obs? {LABEL}(?:, {LABEL})*(?: and {LABEL}(?! others))?")
"""How the scheduler's sentences name jobs."""


@dataclass(frozen=True)
class Holder:
    """A job that another one waits for."""

    job: Job
    since: datetime
    """When it started, or began to wait."""
    until: datetime | None
    """When it ends at the latest; None while it has not started."""
    overdue: bool = False
    """It should have ended, and nobody knows when it will."""


@dataclass(frozen=True)
class Why:
    """As the last pass told it, and what its turn rests on at this moment."""

    sentences: tuple[str, ...]
    """What else is in its way, besides the first reason."""
    holders: tuple[Holder, ...]
    position: Position | None
    in_turn: bool
    """It waits for its turn, though its place may not be known."""
    priority: Priority | None
    """None for who is no longer in its project, and for a request that cannot be read."""
    turn: Turn | None
    """What decides about its turn where the points do not."""
    prediction: Prediction | None
    """None where nothing is known but its walltime."""


def of(job: Job, now: datetime) -> Why:
    """In a constant number of queries."""
    served = history.served([job.pk]) if job.preemptions else None
    asked = _asked(job) or Resources(nodes=job.node_count, gpus_per_node=job.gpus_per_node)
    work = Work.of(
        job.owner_id, job.project_id, job.name, asked, job.walltime_s, called=job.project.name
    )
    places = standings(accounts.projects(), accounts.members(), Books.read(now).balances())
    standing = places.get((job.project_id, job.owner_id))
    return Why(
        sentences=tuple(job.also),
        holders=tuple(_holders(job, now)),
        position=rows.positions([job]).get(job.pk),
        in_turn=job.reason not in NO_TURN,
        priority=_priority(job, standing, now) if standing else None,
        turn=_turn(job, standing, now, served) if standing else None,
        prediction=history.predictions({job.pk: work}, served).get(job.pk),
    )


def named(sentences: Iterable[str]) -> list[str]:
    """The labels of the jobs that sentences name, each once."""
    found = (match[0] for text in sentences for match in JOBS_NAMED.finditer(text))
    return list(dict.fromkeys(label for names in found for label in re.findall(LABEL, names)))


def _holders(job: Job, now: datetime) -> Iterator[Holder]:
    """In the order in which the sentences name them."""
    labels = named([job.detail, *job.also])
    if not labels:
        return
    meant = Q()
    for label in labels:
        number, is_task, index = label.partition("_")
        meant |= Q(array_id=number, array_index=index) if is_task else Q(pk=number)
    attempts = Attempt.objects.filter(job=OuterRef("pk")).order_by("-number")
    told = attempts.filter(ended_at=None).values("leaves_by")[:1]
    left = attempts.values("ended_at")[:1]
    jobs = Job.objects.filter(meant).exclude(pk=job.pk).select_related("owner", "project")
    found = list(jobs.annotate(leaves_by=Subquery(told), left_at=Subquery(left)))
    others = {other.label: other for other in found} | {str(other.pk): other for other in found}
    for other in dict.fromkeys(others[label] for label in labels if label in others):
        if not other.ended:
            until = _until(other, other.leaves_by)
            overdue = until is not None and now - until > timedelta(seconds=LATE_S)
            since = other.started_at or other.left_at or other.submitted_at
            yield Holder(other, since, until, overdue)


def _until(holder: Job, leaves_by: datetime | None) -> datetime | None:
    """`leaves_by`: when it is killed, if it was told to make room."""
    if not holder.active or holder.started_at is None:
        return None
    limit = holder.started_at + timedelta(seconds=holder.walltime_s)
    return min(limit, leaves_by or limit)


def _asked(job: Job) -> Resources | None:
    try:
        return resources(job.spec.get("resources", {}))
    except SpecError:
        return None


def _priority(job: Job, standing: Standing, now: datetime) -> Priority | None:
    """Its points as the scheduler counts them; None for a request that cannot be read."""
    asked = _asked(job)
    if asked is None:
        return None
    there = Gpu.objects.filter(
        present=True, node__partition_id=job.partition_id, node__removed_at=None
    )
    factors = Factors(
        band=Band(job.band),
        standing=standing,
        gpus=machines.gpus_asked(asked, job.partition.name),
        partition_gpus=there.count(),
        eligible_at=job.eligible_at,
        waited_before_s=job.waited_before_s,
        nice=job.nice,
    )
    return priority(factors, job.partition.weights, now)


def _turn(
    job: Job, standing: Standing, now: datetime, served: Mapping[int, float] | None
) -> Turn | None:
    policy = accounts.policy()
    if policy.order is Order.PRIORITY:
        return None
    try:
        spec = specs.stored(job.spec)
    except (SpecError, TypeError, ValueError):
        return None
    waits = snapshot.waiting(job, spec, job.pk, now, served)
    return turn(policy, waits, standing.factor, timezone.localtime(now))
