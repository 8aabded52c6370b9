"""Nodes that are set aside: which, when, for whom, and what still runs there then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet

from jobs import lifecycle
from portal.models import Job, Node, Project, Reservation, User
from portal.queries import accounts

PAGE_SIZE = 50
SHOWN = 3
"""On the page of a node."""


@dataclass(frozen=True)
class Filter:
    """What the URL asks for."""

    node: str = ""
    past: bool = False

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filter:
        node = query.get("node", "").replace("\0", "").strip()[:100]
        return cls(node, query.get("past") == "1")


def page(*, wanted: Filter, number: str, now: datetime) -> Page[Reservation]:
    """Those to come and under way, the next one first; or those that are over, the last one."""
    rows = Reservation.objects.prefetch_related("nodes", "projects", "users")
    if wanted.node:
        rows = rows.filter(nodes__name=wanted.node)
    if wanted.past:
        rows = rows.filter(ends_at__lte=now).order_by("-ends_at", "-pk")
    else:
        rows = rows.filter(ends_at__gt=now).order_by("starts_at", "pk")
    return Paginator(rows, PAGE_SIZE).get_page(number)


def of_node(*, node: Node, now: datetime) -> list[Reservation]:
    """The one under way and the next ones."""
    rows = Reservation.objects.filter(nodes=node, ends_at__gt=now)
    return list(rows.prefetch_related("projects", "users").order_by("starts_at", "pk")[:SHOWN])


def still_running(
    *,
    nodes: Iterable[Node],
    starts_at: datetime,
    projects: Iterable[Project],
    users: Iterable[User],
    now: datetime,
) -> list[Job]:
    """Jobs on these nodes that may go on beyond that moment, and are of nobody it is for; one for a
    project is for all below it, too."""
    there = Job.objects.filter(
        state__in=lifecycle.ACTIVE,
        attempts__ended_at=None,
        attempts__allocations__node__in=nodes,
    )
    invited = accounts.below(*(project.pk for project in projects))
    others: QuerySet[Job] = there.exclude(project__in=invited).exclude(owner__in=users)
    rows = others.select_related("owner").order_by("pk").distinct()
    return [job for job in rows if _gone_by(job, now) > starts_at]


def _gone_by(job: Job, now: datetime) -> datetime:
    lasts = timedelta(seconds=job.walltime_s + lifecycle.WALLTIME_GRACE_S)
    return (job.started_at or now).astimezone(UTC) + lasts
