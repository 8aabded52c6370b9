"""Who used how much: what pages and `manage.py usage` tell."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.utils import timezone

from portal.models import Project, User
from portal.queries.books import ALL, Amount, Books, Only


class By(StrEnum):
    """What use is told apart by."""

    PROJECT = "project"
    USER = "user"
    BAND = "band"
    MODEL = "model"
    DAY = "day"

    @property
    def column(self) -> str:
        return _COLUMNS[self]


_COLUMNS = {
    By.PROJECT: "project_id",
    By.USER: "user_id",
    By.BAND: "band",
    By.MODEL: "gpu_model",
    By.DAY: "day",
}


@dataclass(frozen=True)
class Used:
    """Neither number is decayed. CPUs and memory count in the weighted one."""

    key: int | str
    """An id of a project or a user, a band, a model (empty: no GPU), or a day as YYYY-MM-DD."""
    name: str
    gpu_hours: float
    weighted_hours: float


def usage(
    by: By, since: datetime, until: datetime, *, now: datetime, only: Only = ALL
) -> list[Used]:
    """What was used from one moment to another, until `now` at most: days in their order, all else
    with the most first. What a project used is told without what those below it did."""
    sums = Books.read(now).sums((by.column,), since, min(until, now), only)
    names = _names(by, [key for (key,) in sums])
    found = [_used(key, names, amount) for (key,), amount in sums.items()]
    if by is By.DAY:
        return sorted(found, key=lambda used: used.name)
    return sorted(found, key=lambda used: (-used.gpu_hours, -used.weighted_hours, used.name))


def _names(by: By, keys: list[Any]) -> dict[Any, str]:
    if by is By.PROJECT:
        return dict(Project.objects.filter(pk__in=keys).values_list("pk", "name"))
    if by is By.USER:
        return dict(User.objects.filter(pk__in=keys).values_list("pk", "username"))
    if by is By.DAY:
        zone = timezone.get_default_timezone()
        return {day: f"{timezone.localtime(day, zone):%F}" for day in keys}
    return {key: key or "no GPU" for key in keys}


def _used(key: Any, names: dict[Any, str], amount: Amount) -> Used:
    name = names[key]
    key = name if isinstance(key, datetime) else key
    return Used(key, name, amount.gpu_seconds / 3600, amount.weighted / 3600)
