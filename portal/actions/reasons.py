"""Tell waiting jobs why they wait, what place they have and when they are expected to start."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q

from jobs.lifecycle import HELD, Reason, State
from jobs.scheduler.snapshot import Estimate, Explanation, Plan
from portal import live
from portal.models import Job, Partition, update_each
from portal.queries import pass_rows

SEEN = timedelta(minutes=1)
SEEN_PART = 20
"""An estimate that moves by less than a minute, or than this part of what is still to wait, is left
as it was: the further off, the rougher it is told."""


class _Told(NamedTuple):
    """What a waiting job was told last, by the names of its columns."""

    reason: str
    detail: str
    also: list[str]
    position: int | None
    starts_at: datetime | None
    starts_low: datetime | None
    starts_high: datetime | None


@transaction.atomic
def write(decided: Plan, *, now: datetime) -> int:
    """Write down what is new of a plan's reasons and estimates, made `now`; of how many jobs.

    Most stay from pass to pass. What a later pass has told is left as it is. Whom the plan leaves
    out, as too many wait, is told that.
    """
    waiting = Job.objects.filter(state=State.PENDING)
    waited_in = waiting.order_by().values("partition")
    earlier = Q(foretold_at=None) | Q(foretold_at__lte=now)
    # Of two who write at once the second waits here, and both lock in the same order.
    asked = Partition.objects.select_for_update(no_key=True).filter(earlier, pk__in=waited_in)
    mine = list(asked.order_by("pk").values_list("pk", flat=True))
    Partition.objects.filter(pk__in=mine).update(foretold_at=now)
    told = waiting.exclude(partition__in=Partition.objects.filter(foretold_at__gt=now))
    rows = told.order_by().values_list("pk", *_Told._fields)
    if len(rows) > pass_rows.MAX_PENDING:
        beyond = dict.fromkeys((pk for pk, *_ in rows), _beyond())
        decided = replace(decided, explanations=beyond | decided.explanations)
    found = ((pk, _news(pk, _Told._make(last), decided, now)) for pk, *last in rows)
    new = _still({pk: columns for pk, columns in found if columns}, decided)
    update_each(waiting, new)
    if new:
        live.changed("jobs", *(f"job-{pk}" for pk in new))
    return len(new)


def _beyond() -> Explanation:
    return Explanation(
        Reason.PRIORITY,
        f"More than {pass_rows.MAX_PENDING:,} jobs wait, and not all are looked at: its turn comes "
        "when enough of those before it, or of its array, have started.",
    )


def _still(new: dict[int, dict[str, Any]], decided: Plan) -> dict[int, dict[str, Any]]:
    """Without whom somebody has cancelled, held or released since: that is its last word."""
    if not new:
        return {}
    # Who is locked is being changed, and a pass locks in more than one order of its own.
    unlocked = Job.objects.select_for_update(no_key=True, skip_locked=True)
    rows = unlocked.filter(state=State.PENDING, pk__in=new)
    held = rows.order_by("pk").values_list("pk", "held")
    return {pk: new[pk] for pk, is_held in held if is_held == _is_held(pk, decided)}


def _is_held(pk: int, decided: Plan) -> bool:
    why = decided.explanations.get(pk)
    return why is not None and why.reason in HELD


def _news(pk: int, last: _Told, decided: Plan, now: datetime) -> dict[str, Any]:
    """The columns of a waiting job that differ from what it was told, as far as anybody sees."""
    why, estimate = decided.explanations.get(pk), decided.estimates.get(pk)
    new: dict[str, Any] = {}
    # Who held it, or what failed, was written down when it happened.
    if why is not None and not (last.detail and {last.reason, why.reason} <= HELD):
        new |= {"reason": why.reason, "detail": why.detail}
    new["also"] = list(why.more) if why else []
    new["position"] = why.ahead + 1 if why and why.ahead is not None else None
    new = {name: value for name, value in new.items() if getattr(last, name) != value}
    return new | _moved(last, estimate, now)


def _moved(last: _Told, estimate: Estimate | None, now: datetime) -> dict[str, Any]:
    """An estimate moves a little with every pass; all of it is new or none."""
    was = last.starts_at, last.starts_low, last.starts_high
    new = (estimate.at, estimate.early, estimate.late) if estimate else (None, None, None)
    if not any(_differs(*pair, now) for pair in zip(was, new, strict=True)):
        return {}
    return dict(zip(("starts_at", "starts_low", "starts_high"), new, strict=True))


def _differs(old: datetime | None, new: datetime | None, now: datetime) -> bool:
    if old is None or new is None:
        return old is not new
    return abs(new - old) >= max(SEEN, (new - now) / SEEN_PART)
