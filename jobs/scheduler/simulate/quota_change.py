"""What is tried of one quota: some of its limits set, others lifted, the rest as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobs.bands import Band
from jobs.scheduler.limits import Limits, Quota, Scope
from jobs.scheduler.periods import CalendarMonth, Period, Rolling

LIMITS = ("gpus", "jobs_running", "walltime_s", "gpu_hours", "partitions", "gpu_models")
"""Those that can be tried. How many jobs may wait decides only who is refused at submission, and of
those nothing is recorded."""
NAMES = ("partitions", "gpu_models")


@dataclass(frozen=True)
class QuotaChange:
    """Of a project's quota of one scope and band, whether or not there is one now. None leaves a
    limit as it is; the names among `lifted` are limited no more."""

    project_id: int
    scope: Scope = Scope.PROJECT
    band: Band | None = None
    gpus: float | None = None
    jobs_running: int | None = None
    walltime_s: int | None = None
    gpu_hours: float | None = None
    period_days: int | None = None
    """What the GPU-hours are for: the last so many days; 0 is a calendar month."""
    partitions: tuple[str, ...] | None = None
    gpu_models: tuple[str, ...] | None = None
    lifted: tuple[str, ...] = ()

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> QuotaChange:
        """From what `asdict` made of one, or JSON of that."""
        names = {name: None if said[name] is None else tuple(said[name]) for name in NAMES}
        band = Band(said["band"]) if said["band"] else None
        whose = {"scope": Scope(said["scope"]), "band": band, "lifted": tuple(said["lifted"])}
        return cls(**{**said, **names, **whose})

    @property
    def whose(self) -> tuple[int, Scope, Band | None]:
        """Which quota it is of."""
        return self.project_id, self.scope, self.band

    def limits(self, before: Limits) -> Limits:
        """Those of the quota then. Raises `ValueError` for what is no limit."""
        given = {name: getattr(self, name) for name in LIMITS}
        wanted = {name: value for name, value in given.items() if value is not None}
        wanted |= {name: frozenset(wanted[name]) for name in NAMES if name in wanted}
        return replace(before, **wanted | dict.fromkeys(self.lifted))

    def period(self, before: Period, time_zone: str) -> Period:
        """What the GPU-hours are for then."""
        if self.period_days is None:
            return before
        return Rolling(self.period_days) if self.period_days else CalendarMonth(time_zone)


def changed_quotas(
    quotas: Iterable[Quota], changes: Iterable[QuotaChange], time_zone: str
) -> tuple[Quota, ...]:
    """Raises `ValueError` for what no quota may be."""
    found = tuple(quotas)
    for change in changes:
        found = _changed(found, change, time_zone)
    return found


def _changed(quotas: Iterable[Quota], change: QuotaChange, time_zone: str) -> tuple[Quota, ...]:
    others = []
    mine = Quota(change.project_id, Limits(), change.scope, change.band, CalendarMonth(time_zone))
    for quota in quotas:
        if (quota.project_id, quota.scope, quota.band) == change.whose:
            mine = quota
        else:
            others.append(quota)
    then = replace(
        mine, limits=change.limits(mine.limits), period=change.period(mine.period, time_zone)
    )
    return (*others, then)
