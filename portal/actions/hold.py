"""Keep waiting jobs from starting, and let them go again."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from jobs.lifecycle import Reason, State
from portal import hints, live
from portal.actions import age, passes
from portal.models import Event, Job, User, update_each


def hold(*, job: Job, actor: User, now: datetime) -> bool:
    """Hold a PENDING job; False when it no longer waits or is held already."""
    return bool(_set(Job.objects.filter(pk=job.pk), actor, now, held=True))


def release(*, job: Job, actor: User, now: datetime) -> bool:
    """Let a held job wait for its turn again; False when it is not held."""
    return bool(_set(Job.objects.filter(pk=job.pk), actor, now, held=False))


def hold_array(*, array_id: int, actor: User, now: datetime) -> int:
    """Hold every PENDING task of the array; how many were not held before."""
    return _set(Job.objects.filter(array_id=array_id), actor, now, held=True)


def release_array(*, array_id: int, actor: User, now: datetime) -> int:
    """Let every held task of the array wait for its turn again; how many were held."""
    return _set(Job.objects.filter(array_id=array_id), actor, now, held=False)


@transaction.atomic
def _set(jobs: QuerySet[Job], actor: User, now: datetime, *, held: bool) -> int:
    # A pass under way would start what is held now.
    passes.wait()
    found = jobs.select_for_update().filter(state=State.PENDING, held=not held)
    rows = {row.pk: row for row in found.order_by("pk").only("eligible_at", "waited_before_s")}
    ids = list(rows)
    if not ids:
        return 0
    Job.objects.filter(pk__in=ids).update(
        held=held,
        reason=Reason.HELD_USER if held else Reason.NONE,
        detail=f"Held by {actor}." if held else "",
        claimed_at=None,
    )
    if held:
        # The next pass lets those grow older that are released.
        update_each(Job.objects.all(), {pk: age.frozen(row, now) for pk, row in rows.items()})
    kind = "held" if held else "released"
    Event.objects.bulk_create(Event(at=now, job_id=pk, kind=kind, actor=actor) for pk in ids)
    live.changed("jobs", *(f"job-{pk}" for pk in ids))
    hints.schedule()
    return len(ids)
