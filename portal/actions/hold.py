"""Keep waiting jobs from starting, and let them go again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from jobs.lifecycle import Reason, State
from portal import hints, live
from portal.actions import age, passes
from portal.models import Event, Job, User, update_each
from portal.queries import rights


def hold(*, job: Job, actor: User, now: datetime, why: str = "") -> bool:
    """Hold a PENDING job; False when it no longer waits or is held already.

    What an administrator holds of somebody else only administrators release; `why` is for its
    owner to read.
    """
    return bool(_hold(Job.objects.filter(pk=job.pk), actor, now, why))


def release(*, job: Job, actor: User, now: datetime) -> bool:
    """Let a held job wait for its turn again; False when it is not held, or not by whom `actor`
    may undo."""
    return bool(_release(Job.objects.filter(pk=job.pk), actor, now))


def hold_array(*, array_id: int, actor: User, now: datetime, why: str = "") -> int:
    """Hold every PENDING task of the array, as `hold` does; how many were not held before."""
    return _hold(Job.objects.filter(array_id=array_id), actor, now, why)


def release_array(*, array_id: int, actor: User, now: datetime) -> int:
    """Let every held task of the array, as `release` does, wait for its turn again; how many."""
    return _release(Job.objects.filter(array_id=array_id), actor, now)


@transaction.atomic
def _hold(jobs: QuerySet[Job], actor: User, now: datetime, why: str) -> int:
    by_admin = rights.may_administer(actor) and not jobs.filter(owner=actor).exists()
    # An administrator's hold takes the place of the owner's.
    free = Q(held=False) | Q(held_by_admin=False) if by_admin else Q(held=False)
    rows = _lock(jobs.filter(free))
    detail = f"Held by {actor}: {why}" if why else f"Held by {actor}."
    columns = {
        "held": True, "held_by_admin": by_admin, "detail": detail,
        "reason": Reason.HELD_ADMIN if by_admin else Reason.HELD_USER,
    }  # fmt: skip
    # The next pass lets those grow older that are released.
    ages = {row.pk: age.frozen(row, now) for row in rows if not row.held}
    update_each(Job.objects.all(), ages)
    return _write(rows, columns, "held", actor, now, why)


@transaction.atomic
def _release(jobs: QuerySet[Job], actor: User, now: datetime) -> int:
    theirs = Q() if rights.may_administer(actor) else Q(held_by_admin=False)
    rows = _lock(jobs.filter(theirs, held=True))
    columns = {"held": False, "held_by_admin": False, "reason": Reason.NONE, "detail": ""}
    return _write(rows, columns, "released", actor, now)


def _lock(jobs: QuerySet[Job]) -> list[Job]:
    """Those of them that wait."""
    # A pass under way would start what is held now.
    passes.wait()
    found = jobs.select_for_update().filter(state=State.PENDING).order_by("pk")
    return list(found.only("held", "eligible_at", "waited_before_s"))


def _write(
    rows: Sequence[Job],
    columns: Mapping[str, Any],
    kind: str,
    actor: User,
    now: datetime,
    why: str = "",
) -> int:
    ids = [row.pk for row in rows]
    if not ids:
        return 0
    Job.objects.filter(pk__in=ids).update(**columns, claimed_at=None)
    Event.objects.bulk_create(
        Event(at=now, job_id=pk, kind=kind, actor=actor, detail=why) for pk in ids
    )
    live.changed("jobs", *(f"job-{pk}" for pk in ids))
    hints.schedule()
    return len(ids)
