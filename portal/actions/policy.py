"""Set how jobs are scheduled. What runs goes on; what waits is looked at anew."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from portal import hints, live
from portal.actions import passes
from portal.actions.changes import applied
from portal.models import Event, SchedulingPolicy, User

TERMS = (
    "order", "backfill", "reservations", "preempts", "grace_s", "min_run_s", "max_preemptions",
)  # fmt: skip


@transaction.atomic
def set_policy(*, actor: User | None, now: datetime, **terms: Any) -> bool:
    """Some of `TERMS`. False where nothing changes. Raises `ValidationError`, by field."""
    if unknown := terms.keys() - {*TERMS}:
        raise TypeError(f"no terms: {', '.join(sorted(unknown))}")
    # A pass under way would still preempt by the policy there was.
    passes.wait()
    row = SchedulingPolicy.objects.select_for_update().first() or SchedulingPolicy()
    changes = applied(row, terms)
    row.clean()
    if changes:
        row.save()
        Event.objects.create(at=now, kind="policy set", actor=actor, changes=changes)
        live.changed("jobs")
        hints.schedule()
    return bool(changes)
