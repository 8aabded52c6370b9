"""End a job, or an array as a whole, at a person's wish."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from jobs.lifecycle import Reason, State
from portal.actions import passes
from portal.actions.settle import settle_all
from portal.models import Attempt, Event, Job, Move, User, move_all
from portal.queries import arrays


class Cancelled(NamedTuple):
    """How many jobs a cancellation concerned; those that end already are in neither."""

    waiting: int
    """They have ended: they never began."""
    active: int
    """They are being ended by signal, grace and kill."""


@transaction.atomic
def cancel(*, job: Job, actor: User, now: datetime) -> bool:
    """End it: at once when it waits, else by signal, grace and kill on its nodes.

    False when there was nothing to do: it has ended, or its end was already asked for.
    """
    # Whoever moves it just now is waited for: what is decided here is about what came of that.
    job.refresh_from_db(from_queryset=Job.objects.select_for_update())
    return any(_end([job], actor, now))


@transaction.atomic
def cancel_array(*, array_id: int, actor: User, now: datetime) -> Cancelled:
    """`cancel` for every task of the array, by as many statements for a thousand as for one."""
    # A pass locks what it starts before what it explains: it and we could wait for each other.
    passes.wait()
    tasks = arrays.cancellable(array_id).select_for_update().only("state", "cancelled_at")
    return _end(list(tasks.order_by("pk")), actor, now)


def _end(jobs: Collection[Job], actor: User, now: datetime) -> Cancelled:
    """`jobs` are locked."""
    active = [job for job in jobs if job.active and not job.cancelled_at]
    waiting = move_all([_cancelled(job, actor, now) for job in jobs if job.waiting], now=now)
    Job.objects.filter(pk__in=[job.pk for job in active]).update(
        cancelled_by=actor, cancelled_at=now
    )
    Event.objects.bulk_create(Event(at=now, job=job, kind="cancel", actor=actor) for job in active)
    settle_all(attempts=Attempt.objects.filter(job__in=active, ended_at=None), now=now)
    return Cancelled(len(waiting), len(active))


def _cancelled(job: Job, actor: User, now: datetime) -> Move:
    changes = {"cancelled_by": actor, "cancelled_at": now, "ended_at": now}
    why = f"Cancelled by {actor} before it started."
    return Move(job, State.CANCELLED, Reason.CANCELLED_BY_USER, why, actor, changes)
