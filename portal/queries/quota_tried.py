"""What is tried of a quota, in words: each limit as it is, and as it would be."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings

from jobs.scheduler.limits import Limits, Quota, Scope
from jobs.scheduler.periods import CalendarMonth
from jobs.scheduler.quota_words import exact_span
from jobs.scheduler.simulate.quota_change import LIMITS, QuotaChange, changed_quotas
from jobs.scheduler.words import amount
from portal import models
from portal.queries import accounts


def lines(change: QuotaChange) -> Iterator[list[str]]:
    """Whose quota, then the same limit twice: `vision, each user in batch`, `any number of GPUs at
    once`, `at most 2 GPUs at once`. Raises `Project.DoesNotExist` and `ValueError`."""
    project = models.Project.objects.get(pk=change.project_id)
    before = _before(change)
    (then,) = changed_quotas((before,), (change,), settings.TIME_ZONE)
    for name in LIMITS:
        yield [_whose(project.name, change), _words(name, before), _words(name, then)]


def _before(change: QuotaChange) -> Quota:
    rows = models.Quota.objects.filter(project_id=change.project_id, scope=change.scope)
    row = rows.filter(band=change.band or "").first()
    if row is not None:
        return accounts.quota(row)
    period = CalendarMonth(settings.TIME_ZONE)
    return Quota(change.project_id, Limits(), change.scope, change.band, period)


def _whose(project: str, change: QuotaChange) -> str:
    each = ", each user" if change.scope is Scope.USER else ""
    return f"{project}{each}{f' in {change.band}' if change.band else ''}"


def _words(name: str, quota: Quota) -> str:
    value = getattr(quota.limits, name)
    match name:
        case "gpus":
            return f"{_most(value, 'GPU')} at once"
        case "jobs_running":
            return f"{_most(value, 'job')} running"
        case "walltime_s":
            return "any walltime" if value is None else f"walltimes up to {exact_span(value)}"
        case "partitions":
            return f"in {_only(value, 'partition')}"
        case "gpu_models":
            return f"on {_only(value, 'GPU model')}"
    return _most(value, "GPU-hour") + ("" if value is None else f" {quota.period}")


def _most(number: float | None, thing: str) -> str:
    if number is None:
        return f"any number of {thing}s"
    return f"at most {amount(number, 6)} {thing}{'' if number == 1 else 's'}"


def _only(names: frozenset[str] | None, thing: str) -> str:
    if names is None:
        return f"any {thing}"
    return f"{thing}{'' if len(names) == 1 else 's'} {', '.join(sorted(names)) or 'none'}"
