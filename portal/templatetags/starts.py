"""Template filters for when waiting jobs are expected to start: `{% load starts %}`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.scheduler import when
from jobs.scheduler.priority import WeightedFactor
from jobs.scheduler.snapshot import Estimate
from portal.models import Job, User
from portal.queries.rows import Row

register = template.Library()


@register.filter
def estimate(job: Job) -> Estimate | None:
    """What the last pass told of a waiting job; None where the start cannot be foretold."""
    if not job.waiting or job.starts_at is None:
        return None
    early, late = job.starts_low or job.starts_at, job.starts_high or job.starts_at
    return Estimate(job.starts_at, early, late)


@register.filter
def foretold_at(rows: Iterable[Row]) -> datetime | None:
    """As of when the estimates hold that these rows show, the oldest; None if none is shown."""
    shown = (row.waiting for row in rows if row.waiting and estimate(row.waiting))
    return min(filter(None, (job.partition.foretold_at for job in shown)), default=None)


@register.filter
def about(expected: Estimate) -> SafeString:
    """`about 14:05`, with the full time when pointed at."""
    return roughly(expected.at)


@register.filter
def roughly(moment: datetime) -> SafeString:
    """The same of a moment."""
    local = timezone.localtime(moment)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(timespec="seconds"),
        date_format(local, "j M Y, H:i:s e"),
        when.about(moment, timezone.localtime()),
    )


@register.filter
def spread(expected: Estimate) -> str:
    """`between 13:40 and 15:20`; empty where nothing is known of a spread."""
    return when.spread(expected.at, expected.early, expected.late, timezone.localtime())


@register.filter
def rests_on(by: str, owners: tuple[User, User]) -> str:
    """A prediction's `by`, which speaks to the job's owner, for whoever reads it."""
    owner, reader = owners
    return by if owner == reader else by.replace("your", f"{owner.username}'s", 1)


@register.filter
def points(part: WeightedFactor) -> str:
    """`+12`, `-300`, `0`: what a factor brings. A band brings none: it goes before all points."""
    if part.name == "band":
        return "\N{EN DASH}"
    return f"+{part.told}" if part.points > 0 and part.told != "0" else part.told
