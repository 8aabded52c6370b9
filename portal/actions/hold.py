"""Keep a waiting job from starting, and let it go again."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from jobs.lifecycle import Reason, State
from portal import hints, live
from portal.models import Event, Job, User


def hold(*, job: Job, actor: User, now: datetime) -> bool:
    """Hold a PENDING job; False when it no longer waits or is held already."""
    return _set(job, actor, now, held=True)


def release(*, job: Job, actor: User, now: datetime) -> bool:
    """Let a held job wait for its turn again; False when it is not held."""
    return _set(job, actor, now, held=False)


@transaction.atomic
def _set(job: Job, actor: User, now: datetime, *, held: bool) -> bool:
    done = Job.objects.filter(pk=job.pk, state=State.PENDING, held=not held).update(
        held=held,
        reason=Reason.HELD_USER if held else Reason.NONE,
        detail=f"Held by {actor}." if held else "",
    )
    if not done:
        return False
    Event.objects.create(at=now, job=job, kind="held" if held else "released", actor=actor)
    live.changed("jobs", f"job-{job.pk}")
    hints.schedule()
    return True
