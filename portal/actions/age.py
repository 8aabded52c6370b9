"""How long jobs have waited, as their priority counts it.

A job grows older while nothing of its own keeps it back: not while it is held, and not before its
begin time and the jobs it depends on. Then its age stands still; it does not begin anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from jobs.lifecycle import HELD, Reason, State
from jobs.scheduler.snapshot import Explanation
from jobs.spec import JobSpec
from portal.models import Job, Prepared

KEPT_BACK = (
    *HELD,
    Reason.DEPENDENCY,
    Reason.DEPENDENCY_NEVER,
    Reason.BEGIN_TIME,
)
"""What it waits for then. Not the limit of its array: the next task is one of those that wait for
their turn."""


def since(spec: JobSpec, now: datetime) -> datetime | None:
    """Since when a job submitted now grows older; None where a pass has to find out."""
    free = spec.begin_at is None or spec.begin_at <= now
    return now if free and not spec.held and not spec.dependencies else None


def frozen(job: Job, now: datetime) -> dict[str, Any]:
    """The columns of a job that is kept back, or starts, from now on."""
    return {"eligible_at": None, "waited_before_s": waited_s(job, now)}


def waited_s(job: Job, now: datetime) -> float:
    """The waiting that counts."""
    if job.eligible_at is None:
        return job.waited_before_s
    return job.waited_before_s + max(0.0, (now - job.eligible_at).total_seconds())


def _still() -> QuerySet[Job]:
    return Job.objects.filter(state=State.PENDING, held=False, eligible_at=None)


_standing = Prepared[Any](lambda: _still().order_by().values_list("pk"))


def grow(looked_at: Iterable[int], own: Mapping[int, Explanation], now: datetime) -> None:
    """Let those of these waiting jobs grow older that nothing of their own keeps back any more.

    `own` is what a plan found to keep jobs back. For the transaction of its pass.
    """
    standing = {pk for (pk,) in _standing.rows()}
    if not standing:
        return
    free = [
        pk
        for pk in sorted(standing.intersection(looked_at))
        if pk not in own or own[pk].reason not in KEPT_BACK
    ]
    # In the order in which everybody locks jobs.
    locked = _still().select_for_update().filter(pk__in=free).order_by("pk")
    Job.objects.filter(pk__in=list(locked.values_list("pk", flat=True))).update(eligible_at=now)
