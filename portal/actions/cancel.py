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
    # Whoever moves it just now is waited for: what is decided here is about what came of that.
    job.refresh_from_db(from_queryset=Job.objects.select_for_update())
    if job.waiting:
        return job.move(
            State.CANCELLED, now=now, reason=Reason.CANCELLED_BY_USER, actor=actor,
            detail=f"Cancelled by {actor} before it started.",
            cancelled_by=actor, cancelled_at=now, ended_at=now,
        )  # fmt: skip
    if not job.active or job.cancelled_at:
        return False
    Job.objects.filter(pk=job.pk).update(cancelled_by=actor, cancelled_at=now)
    Event.objects.create(at=now, job=job, kind="cancel", actor=actor)
    settle(attempt=Attempt.objects.get(job=job, ended_at=None), now=now)
    return True
