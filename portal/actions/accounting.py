"""Set how the lab charges. What was used before stays charged as it was; how it fades does not."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from portal import hints, live
from portal.actions import balances, charge
from portal.actions.changes import Changes, applied
from portal.models import Accounting, Event, GpuModel, User

TERMS = ("gpu_weight", "cpu_weight", "memory_gib_weight", "half_life_s", "entry_penalty")


@transaction.atomic
def set_terms(*, actor: User | None, now: datetime, **terms: float) -> bool:
    """Some of `TERMS`. False where nothing changes. Raises `ValidationError`, by field."""
    if unknown := terms.keys() - {*TERMS}:
        raise TypeError(f"no terms: {', '.join(sorted(unknown))}")
    row = Accounting.locked()
    changes = applied(row, terms)
    if changes:
        charge.catch_up(now=now)
        row.save(update_fields=[*changes])
        if "half_life_s" in changes:
            balances.make_anew(row.decay, now)
        _tell("charging set", changes, actor, now)
    return bool(changes)


@transaction.atomic
def set_weight(*, gpu_model: str, weight: float | None, actor: User | None, now: datetime) -> bool:
    """What a model of GPU costs; None: as much as those without a weight of their own.

    False where nothing changes. Raises `ValidationError`, by field.
    """
    # Nobody charges anything meanwhile.
    Accounting.locked()
    known = GpuModel.objects.filter(name=gpu_model).first()
    before = known.weight if known else None
    if before == weight:
        return False
    charge.catch_up(now=now)
    if weight is None:
        GpuModel.objects.filter(name=gpu_model).delete()
    else:
        row = known or GpuModel(name=gpu_model)
        applied(row, {"name": gpu_model, "weight": weight})
        row.save()
    _tell("weight set", {gpu_model: [before, weight]}, actor, now)
    return True


def _tell(kind: str, changes: Changes, actor: User | None, now: datetime) -> None:
    Event.objects.create(at=now, kind=kind, actor=actor, changes=changes)
    live.changed("projects")
    hints.schedule()
