"""Set what a project, and each of its users, may have. Every change is an event."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from jobs.bands import Band
from jobs.scheduler.limits import Scope
from portal import hints, live
from portal.actions import passes
from portal.actions.changes import applied
from portal.models import Event, Gpu, Partition, Project, Quota, User
from portal.models.quota import LIMITS


@transaction.atomic
def set_quota(
    *,
    project: Project,
    limits: Mapping[str, Any],
    actor: User | None,
    now: datetime,
    scope: Scope = Scope.PROJECT,
    band: Band | None = None,
    period_days: int | None = None,
) -> bool:
    """These limits, by the names of `Quota`'s columns, in place of those there were; what is not
    named is not limited. None: all bands but best-effort, and calendar months.

    False where nothing changes. Raises `ValidationError`, by field.
    """
    if unknown := limits.keys() - {*LIMITS}:
        raise TypeError(f"no limits: {', '.join(sorted(unknown))}")
    # What a pass under way starts was measured by what there is now.
    passes.wait()
    # One change of a project's quotas at a time.
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    mine = Quota.objects.filter(project=project, scope=scope, band=band or "")
    row = mine.first() or Quota(project=project, scope=scope, band=band or "")
    columns = {name: limits.get(name) for name in LIMITS}
    check_names(columns)
    changes = applied(row, columns | _period(columns, period_days))
    if not changes:
        return False
    if all(value is None for value in columns.values()):
        row.delete()
    else:
        row.save()
    Event.objects.create(
        at=now, project=project, kind="quota set", actor=actor, detail=str(row), changes=changes
    )
    live.changed("projects", f"project-{project.pk}")
    hints.schedule()
    return True


def _period(columns: Mapping[str, Any], days: int | None) -> dict[str, Any]:
    """What the GPU-hours are for; without any, there is no period to speak of."""
    if days is None or columns["gpu_hours"] is None:
        return {"period": Quota.PeriodKind.MONTH, "period_days": None}
    return {"period": Quota.PeriodKind.ROLLING, "period_days": days}


def check_names(columns: Mapping[str, Any]) -> None:
    """They have to be known: one that was mistyped would allow nothing.

    Raises `ValidationError`, by field.
    """
    known = {
        "partitions": set(Partition.objects.values_list("name", flat=True)),
        "gpu_models": set(Gpu.objects.order_by().values_list("model", flat=True).distinct()),
    }
    wrong: dict[str, str] = {}
    for name, there in known.items():
        strange = [given for given in columns[name] or () if given not in there]
        if strange:
            wrong[name] = (
                f"There is no {', '.join(map(str, strange))}; "
                f"there is {', '.join(sorted(there)) or 'none yet'}."
            )
    if wrong:
        raise ValidationError(wrong)
