"""Template filters for projects, quotas and use: `{% load projects %}`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django import template
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from jobs.scheduler.limits import Limited, Rule, Scope, Standing
from jobs.scheduler.words import amount, count
from portal.models import Event, User
from portal.queries import rights
from portal.templatetags.jobs import walltime_words

register = template.Library()
register.filter(amount)

_LIMITS = {
    Limited.PARTITIONS: "Partitions",
    Limited.GPU_MODELS: "GPU models",
    Limited.WALLTIME: "Walltime",
    Limited.JOBS_PENDING: "Jobs waiting",
    Limited.JOBS_RUNNING: "Jobs running",
    Limited.GPUS: "GPUs at once",
    Limited.GPU_HOURS: "GPU-hours",
    Limited.LENDING: "GPUs of all lenders",
}
_UNITS = {
    Limited.JOBS_PENDING: "jobs",
    Limited.JOBS_RUNNING: "jobs",
    Limited.GPUS: "GPUs",
    Limited.GPU_HOURS: "GPU-h",
    Limited.LENDING: "GPUs",
}
_FIELDS = {
    "reservations": "jobs promised a time",
    "preempts": "who may be preempted",
    "grace_s": "grace",
    "min_run_s": "shortest run",
    "max_preemptions": "preemptions in a row",
    "max_walltime_s": "longest walltime",
    "default_walltime_s": "usual walltime",
    "default_band": "usual band",
    "allowed_bands": "bands allowed",
    "priority_weights": "points other than usual",
    "gpu_weight": "a GPU",
    "cpu_weight": "a CPU",
    "memory_gib_weight": "a GiB of memory",
    "half_life_s": "half-life",
    "entry_penalty": "entry penalty",
    "is_default": "default",
    "username": "name",
    "first_name": "first name",
    "last_name": "last name",
    "is_active": "may sign in",
    "is_staff": "administrator",
    "shards": "parts",
    "sharing": "shared",
    "gpus": "GPUs at once",
    "gpu_hours": "GPU-hours",
    "jobs_running": "jobs running",
    "jobs_pending": "jobs waiting",
    "walltime_s": "walltime",
    "gpu_models": "GPU models",
    "period_days": "days of the period",
    "fair_share": "fair share",
    "max_age_s": "age that counts",
    "archived_at": "archived",
    "lends": "its children lend",
    "parent": "below",
    "starts_at": "begins",
    "ends_at": "ends",
}
_FIRST = {"created", "reserved", "member added", "person added", "partition added"}
"""Kinds of events before which there was nothing to tell of."""
_NONE = {
    "gpus", "gpu_hours", "jobs_running", "jobs_pending", "walltime_s", "partitions", "gpu_models",
    "max_walltime_s",
}  # fmt: skip
"""Of these, None is no limit."""
_TIMES = {
    "walltime_s", "max_walltime_s", "default_walltime_s", "half_life_s", "grace_s", "min_run_s",
    "max_age_s",
}  # fmt: skip


@register.filter
def hours(value: float) -> str:
    """`1,234.5`: to the tenth, so that columns align; `< 0.1` for what is not quite nothing."""
    return "< 0.1" if 0 < value < 0.05 else f"{value:,.1f}"


@register.filter
def lasting(seconds: float) -> str:
    """`7 d`, `1 min 30 s`, `0.5 s`."""
    return walltime_words(int(seconds)) if seconds == int(seconds) else f"{amount(seconds)} s"


@register.filter
def weight(value: float) -> str:
    """`1`, `0.0025`: as exact as anybody sets it."""
    return amount(value, 6)


@register.filter
def percent(part: float) -> str:
    """`75.0 %`, `33.3 %`: one below the other they align."""
    return f"{100 * part:.1f} %"


@register.filter
def fairness(value: float | None) -> str:
    """LF: `1.50`; infinite for who used nothing."""
    if value is None or math.isinf(value):
        return "∞"
    return f"{value:,.2f}"


@register.filter
def exceeded(left: Standing) -> bool:
    """More is used or held than the limit, which was lowered, allows now."""
    return left.used + left.held > left.limit


@register.filter
def limit_words(rule: Rule) -> str:
    """`GPU-hours in a calendar month`."""
    words = _LIMITS[rule.limited]
    return f"{words} {rule.period}" if rule.period else words


@register.filter
def limit_unit(rule: Rule) -> str:
    """What is counted."""
    return _UNITS.get(rule.limited, "")


@register.filter
def limit_value(rule: Rule) -> str:
    """The limit, of what is not counted: a time or names."""
    if rule.limited is Limited.WALLTIME:
        return walltime_words(round(rule.limit))
    return ", ".join(sorted(rule.names)) or "none"


@register.filter
def whose(rule: Rule) -> str:
    """`all users`, `each user`; with the band where it is for one."""
    words = "each user" if rule.scope is Scope.USER else "all users"
    return f"{words}, {rule.band}" if rule.band else words


@register.filter
def changed(event: Event) -> Iterator[tuple[str, str, str]]:
    """What an event changed: field, before, after; of what is new only what there is of it."""
    first = event.kind in _FIRST
    for field, (before, after) in (event.changes or {}).items():
        if not first:
            yield _FIELDS.get(field, field), _told(field, before), _told(field, after)
        elif after not in (None, "", []):
            yield _FIELDS.get(field, field), "", _told(field, after)


@register.filter
def these(number: int, kind: str) -> str:
    """`These 3 running jobs`, `This running job`."""
    return f"This {kind} job" if number == 1 else f"These {number:,} {kind} jobs"


@register.filter
def dictget(found: dict[Any, Any], key: Any) -> Any:
    """`{{ names|dictget:user_id }}`."""
    return found.get(key, "")


@register.filter
def may_administer(user: User | AnonymousUser) -> bool:
    """`{% if user|may_administer %}`."""
    return rights.may_administer(user)


def _told(field: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return _several(value)
    if value is None or value in ("", []):
        return _nothing(field)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if field in _TIMES:
        return lasting(value)
    if field == "archived_at":
        return f"{timezone.localtime(datetime.fromisoformat(value)):%Y-%m-%d %H:%M %Z}"
    if field == "entry_penalty":
        return percent(value)
    return weight(value) if isinstance(value, (int, float)) else str(value)


def _several(value: dict[str, Any]) -> str:
    """A member's standing, or whatever has names of its own."""
    if "shares" in value:
        lead = ", lead" if value.get("lead") else ""
        return f"{count(value['shares'], 'share')}{lead}"
    told = (f"{_FIELDS.get(name, name)}: {_told(name, one)}" for name, one in value.items())
    return "; ".join(told) or "none"


def _nothing(field: str) -> str:
    if field in _NONE:
        return "no limit"
    return {"parent": "top", "allowed_bands": "all", "sharing": "no"}.get(field, "none")
