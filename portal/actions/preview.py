"""What a change would do, found by doing it in a transaction that is rolled back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from jobs.scheduler.compare import compare
from portal.actions import passes
from portal.models import Event
from portal.queries import effects, snapshot
from portal.queries.effects import Part, Whose
from portal.queries.hits import MOST, Hit, Planned, hits, planned


@dataclass(frozen=True)
class ShareChange:
    """Whose part of the shares at their level becomes another; None: they had or get none."""

    name: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Preview:
    """What would come of it. Lists hold `MOST` at most."""

    events: list[Event]
    """What would be written down, once where it is of several nodes; empty where nothing would
    change."""
    over: list[Hit]
    """Running jobs that would be beyond a limit which they keep to now."""
    over_count: int
    never: list[Hit]
    """Waiting jobs that could never start any more."""
    never_count: int
    freed_count: int
    """Waiting jobs that could never start, and could then."""
    parts: list[ShareChange]
    parts_count: int
    planned: Planned
    """What the next pass would do otherwise, as far as can be told now."""


def preview(change: Callable[[], object], *, now: datetime) -> Preview:
    """Raises `ValidationError` as the change does; keeps nothing of it."""
    with transaction.atomic():
        # What one under way starts is none of the change's doing.
        passes.wait()
        standing, old = effects.read(now), snapshot.read(now)
        last = Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        change()
        then, new = effects.read(now), snapshot.read(now)
        events = list(Event.objects.filter(pk__gt=last, at=now).select_related("actor"))
        transaction.set_rollback(True)
    # All that follows takes its time where thousands wait; nobody else has to wait for it.
    before, after = standing.outcome(), then.outcome()
    over = _new(before.over, after.over)
    never = _new(before.never, after.never)
    parts = _parts(before.parts, after.parts)
    found = compare(old.snapshot(), new.snapshot(), now)
    # Of those that could never start it is told already that they do not.
    lost = tuple(one for one in found.lost if one.job_id not in never)
    return Preview(
        events=list({(event.detail, str(event.changes)): event for event in events}.values()),
        over=hits(over),
        over_count=len(over),
        never=hits(never),
        never_count=len(never),
        freed_count=len(before.never.keys() - after.never.keys()),
        parts=parts[:MOST],
        parts_count=len(parts),
        planned=planned(replace(found, lost=lost)),
    )


def _new(before: Mapping[int, str], after: Mapping[int, str]) -> dict[int, str]:
    return {job_id: why for job_id, why in after.items() if job_id not in before}


def _parts(before: Mapping[Whose, Part], after: Mapping[Whose, Part]) -> list[ShareChange]:
    """By name; who is only called otherwise has what they had."""
    known = {**before, **after}
    shares = [{whose: part.share for whose, part in parts.items()} for parts in (before, after)]
    changed = (
        ShareChange(known[whose].name, *(share.get(whose) for share in shares))
        for whose in sorted(known, key=lambda whose: known[whose].name)
    )
    return [part for part in changed if part.before != part.after]
