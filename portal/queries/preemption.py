"""What a plan must know of running jobs to choose who makes room, and where they go on later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, Max, OuterRef, QuerySet, Subquery

from jobs.lifecycle import State
from jobs.scheduler.preempt import in_a_row
from portal.models import Attempt, Checkpoint, Job, Prepared
from portal.queries.holdings import Part


@dataclass(frozen=True)
class Run:
    """Of a job that runs or is being ended, as far as preemption goes."""

    started_at: datetime
    saved_at: datetime | None
    """When its newest complete checkpoint was written; None: none since it started."""
    preemptions: int
    """How often in a row it had to make room before this run."""
    leaves_by: datetime | None
    """When it will be gone at the latest, if it was told to make room."""
    preemptible: bool
    """It runs, and nobody has ended it."""

    @property
    def leaving(self) -> bool:
        return self.leaves_by is not None


def _since_their_start() -> QuerySet[Any]:
    """When the newest checkpoint of each job that runs was written."""
    running = Attempt.objects.filter(ended_at=None).values("job")
    complete = Checkpoint.objects.filter(
        job__in=running, complete=True, modified_at__gte=F("job__started_at")
    )
    return complete.order_by().values_list("job").annotate(Max("modified_at"))


_saved = Prepared[Any](_since_their_start)


def runs(held: Iterable[Part], now: datetime) -> dict[int, Run]:
    """By job, all that have started and are not gone yet, of what they hold."""
    saved, found = dict(_saved.rows()), {}
    for part in held:
        began = part.attempt__job__started_at
        if began is not None:
            job_id, alive_s = part.attempt__job_id, (now - began).total_seconds()
            counted = in_a_row(part.attempt__job__preemptions, alive_s)
            ends = part.attempt__job__cancelled_at is not None
            runs = part.attempt__job__state == State.RUNNING and not ends
            found[job_id] = Run(began, saved.get(job_id), counted, part.attempt__leaves_by, runs)
    return found


def newest_checkpoints(job_ids: Iterable[int]) -> dict[int, Checkpoint]:
    """By job, the one to go on from; without those that have no complete one.

    On storage that nodes share, each of them tells of it: it is whole when all say so.
    """
    doubted = Checkpoint.objects.filter(job=OuterRef("job"), path=OuterRef("path"), complete=False)
    return _newest(job_ids, Checkpoint.objects.filter(~Exists(doubted), complete=True))


def newest_flawed(job_ids: Iterable[int]) -> dict[int, Checkpoint]:
    """By job, the latest that is not complete; without those that have none."""
    return _newest(job_ids, Checkpoint.objects.filter(complete=False))


def _newest(job_ids: Iterable[int], of: QuerySet[Checkpoint]) -> dict[int, Checkpoint]:
    newest = of.filter(job=OuterRef("pk")).order_by("-modified_at", "-id").values("pk")[:1]
    jobs = Job.objects.filter(pk__in=list(job_ids)).annotate(newest=Subquery(newest))
    wanted = {pk: found for pk, found in jobs.values_list("pk", "newest") if found}
    rows = Checkpoint.objects.in_bulk(wanted.values())
    return {job_id: rows[pk] for job_id, pk in wanted.items() if pk in rows}


def outdated_claims(now: datetime, lasts: timedelta) -> QuerySet[Job]:
    """Waiting jobs that did not take the room made for them within so long after it was there."""
    awaited = Attempt.objects.filter(preemptor=OuterRef("pk"), leaves_by__gt=now - lasts)
    claims = Job.objects.filter(state=State.PENDING, claimed_at__lte=now - lasts)
    return claims.exclude(Exists(awaited))
