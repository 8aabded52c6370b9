"""Keep waiting jobs from starting, and let them go again.

An owner's hold and an administrator's are two: each lasts until it is released itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q, QuerySet

from jobs.lifecycle import Reason, State
from portal import hints, live
from portal.actions import age, passes
from portal.models import Event, Job, User, update_each
from portal.queries import rights

Columns = dict[str, Any]
READ = (
    "held", "held_by_admin", "held_by_owner", "eligible_at", "waited_before_s", "owner__username",
    "owner__first_name", "owner__last_name",
)  # fmt: skip


class Released(NamedTuple):
    """How many jobs wait for their turn again, and of how many another one's hold is left."""

    free: int
    still_held: int


def hold(*, job: Job, actor: User, now: datetime, why: str = "") -> bool:
    """Hold a PENDING job; False when it no longer waits or `actor` holds it already.

    What an administrator holds of somebody else only administrators release; `why` is for its
    owner to read.
    """
    return bool(_hold(Job.objects.filter(pk=job.pk), actor, now, why))


def release(*, job: Job, actor: User, now: datetime) -> bool:
    """Take back what `actor` may undo of the holds of a job: its owner their own; an administrator
    the administrators', or, where there is none, its owner's. False when there is nothing to."""
    return any(_release(Job.objects.filter(pk=job.pk), actor, now))


def hold_array(*, array_id: int, actor: User, now: datetime, why: str = "") -> int:
    """Hold every PENDING task of the array, as `hold` does; how many `actor` did not hold."""
    return _hold(Job.objects.filter(array_id=array_id), actor, now, why)


def release_array(*, array_id: int, actor: User, now: datetime) -> Released:
    """Release every held task of the array, as `release` does."""
    return _release(Job.objects.filter(array_id=array_id), actor, now)


@transaction.atomic
def _hold(jobs: QuerySet[Job], actor: User, now: datetime, why: str) -> int:
    by_admin = rights.may_administer(actor) and not jobs.filter(owner=actor).exists()
    beneath = Q(held_by_admin=True, held_by_owner=False)
    free = Q(held_by_admin=False) if by_admin else Q(held=False) | beneath
    rows = _lock(jobs.filter(free))
    detail = f"Held by {actor}: {why}" if why else f"Held by {actor}."
    # The next pass lets those grow older that are released.
    new = {
        row.pk: _held(row, by_admin, detail) | ({} if row.held else age.frozen(row, now))
        for row in rows
    }
    return _write(new, dict.fromkeys(new, why), "held", actor, now)


def _held(row: Job, by_admin: bool, detail: str) -> Columns:
    """The columns of a job that is held; its page goes on telling of an administrator's hold."""
    if by_admin:
        told = {"reason": Reason.HELD_ADMIN, "detail": detail}
        return {"held": True, "held_by_admin": True} | told
    told = {} if row.held_by_admin else {"reason": Reason.HELD_USER, "detail": detail}
    return {"held": True, "held_by_owner": True} | told


@transaction.atomic
def _release(jobs: QuerySet[Job], actor: User, now: datetime) -> Released:
    by_admin = rights.may_administer(actor)
    theirs = Q() if by_admin else Q(held_by_admin=False) | Q(held_by_owner=True)
    rows = _lock(jobs.filter(theirs, held=True))
    new = {row.pk: _released(row, actor, by_admin) for row in rows}
    stay = {pk for pk, columns in new.items() if "held" not in columns}
    whose = "Its owner's" if by_admin else "An administrator's"
    left = {pk: f"{whose} hold is left." if pk in stay else "" for pk in new}
    return Released(_write(new, left, "released", actor, now) - len(stay), len(stay))


def _released(row: Job, actor: User, by_admin: bool) -> Columns:
    if row.held_by_admin and row.held_by_owner and row.owner_id != actor.pk:
        told = {"reason": Reason.HELD_USER, "detail": f"Held by {row.owner}."}
        return {"held_by_admin": False} | told
    if row.held_by_admin and not by_admin:
        return {"held_by_owner": False}
    told = {"reason": Reason.NONE, "detail": ""}
    return {"held": False, "held_by_admin": False, "held_by_owner": False} | told


def _lock(jobs: QuerySet[Job]) -> list[Job]:
    """Those of them that wait."""
    # A pass under way would start what is held now.
    passes.wait()
    found = jobs.select_for_update(of=("self",)).filter(state=State.PENDING).order_by("pk")
    return list(found.select_related("owner").only(*READ))


def _write(
    new: Mapping[int, Columns], details: Mapping[int, str], kind: str, actor: User, now: datetime
) -> int:
    if not new:
        return 0
    update_each(
        Job.objects.all(), {pk: columns | {"claimed_at": None} for pk, columns in new.items()}
    )
    Event.objects.bulk_create(
        Event(at=now, job_id=pk, kind=kind, actor=actor, detail=details[pk]) for pk in new
    )
    live.changed("jobs", *(f"job-{pk}" for pk in new))
    hints.schedule()
    return len(new)
