"""End a job at a person's wish."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from jobs.lifecycle import Reason, State
from portal.actions.settle import settle
from portal.models import Attempt, Event, Job, User


@transaction.atomic
def cancel(*, job: Job, actor: User, now: datetime) -> bool:
    """End it: at once when it waits, else by signal, grace and kill on its nodes.

    False when there was nothing to do: it has ended, or its end was already asked for.
    """
    job.refresh_from_db()
    if job.waiting:
        ended = job.move(
            State.CANCELLED, now=now, reason=Reason.CANCELLED_BY_USER, actor=actor,
            detail=f"Cancelled by {actor} before it started.",
            cancelled_by=actor, cancelled_at=now, ended_at=now,
        )  # fmt: skip
        if ended:
            return True
        # A scheduling pass was quicker: end what it has begun.
        job.refresh_from_db()
    if not job.active:
        return False
    asked = Job.objects.filter(pk=job.pk, cancelled_at=None).update(
        cancelled_by=actor, cancelled_at=now
    )
    if not asked:
        return False
    Event.objects.create(at=now, job=job, kind="cancel", actor=actor)
    settle(attempt=Attempt.objects.get(job=job, ended_at=None), now=now)
    return True
