"""Projects as pages show them: the tree, and one with all about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.core.paginator import Page, Paginator
from django.db.models import Count, Q, QuerySet

from jobs import lifecycle
from jobs.scheduler import fairshare
from jobs.scheduler.fairshare import Level, Member
from jobs.scheduler.limits import Limited
from jobs.scheduler.limits import Standing as Left
from jobs.scheduler.periods import CalendarMonth
from portal.models import Event, Job, Membership, Project, User
from portal.queries.standing import Few, Limit, Share, Standing

PAGE_SIZE = 50
EVENTS = 20
MOST_USERS = 10
"""Of each limit; the others are behind a link."""


@dataclass(frozen=True)
class Filter:
    """What the URL asks for."""

    q: str = ""
    mine: bool = False
    archived: bool = False

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filter:
        q = query.get("q", "").replace("\0", "").strip()[:200]
        return cls(q, query.get("mine") == "1", query.get("archived") == "1")

    @property
    def narrowed(self) -> bool:
        return bool(self.q or self.mine)


@dataclass(frozen=True)
class TreeRow:
    """A project in the tree. Hours are with all below it."""

    project: Project
    depth: int
    path: tuple[str, ...]
    """The names of those above it."""
    share: Share
    decayed: float
    decayed_part: float
    """Of what its parent, with all below, used."""
    month: float
    gpus: Left | None
    gpu_hours: Left | None
    running: int
    waiting: int


@dataclass(frozen=True)
class Person:
    """A member, or somebody with one share as they still have jobs here."""

    user: User
    membership: Membership | None
    share: Share
    decayed: float
    standing: fairshare.Standing | None

    @property
    def level(self) -> Level | None:
        return self.standing.levels[-1] if self.standing else None


@dataclass(frozen=True)
class Above:
    """A project on the way up, with its own limits."""

    name: str
    limits: list[Limit]


def standing(now: datetime) -> Standing:
    """Of all projects."""
    return Standing.read(now, CalendarMonth(settings.TIME_ZONE).begin(now))


def tree(
    *, wanted: Filter, user: User, number: str, found: Standing
) -> tuple[Page[tuple[int, int]], list[TreeRow]]:
    """A page of the tree, parents before their children; filtered, what fits with its path."""
    fitting = set(_fitting(wanted, user).values_list("pk", flat=True))
    order = [(project.id, depth) for project, depth in found.walk() if project.id in fitting]
    page = Paginator(order, PAGE_SIZE).get_page(number)
    ids = [project_id for project_id, _ in page.object_list]
    rows = Project.objects.in_bulk(ids)
    counts = open_jobs(ids)
    lines = [
        _row(rows[pk], 0 if wanted.narrowed else depth, found, counts.get(pk, (0, 0)))
        for pk, depth in page.object_list
    ]
    return page, lines


def people(project: Project, found: Standing, number: str) -> tuple[Page[Member], list[Person]]:
    """Who has shares in it, whoever goes first in fair share first."""
    mine = [member for member in found.members if member.project_id == project.pk]
    mine.sort(key=lambda member: (_position(member, found), member.name))
    page = Paginator(mine, PAGE_SIZE).get_page(number)
    users = User.objects.in_bulk([member.user_id for member in page.object_list])
    rows = Membership.objects.filter(project=project, user__in=users)
    memberships = {row.user_id: row for row in rows}
    return page, [
        Person(
            user=users[member.user_id],
            membership=memberships.get(member.user_id),
            share=found.member_share(member),
            decayed=found.balances.get((project.pk, member.user_id), 0.0) / 3600,
            standing=found.fair_share.get((project.pk, member.user_id)),
        )
        for member in page.object_list
    ]


def way_down(project: Project, found: Standing) -> list[tuple[str, Share, float, float | None]]:
    """The projects from the top to this one: name, share, part of use, and how fair that is.

    None for who used nothing: infinitely much is due to them.
    """
    steps = []
    for step in [*found.above(project.pk), found.projects[project.pk]]:
        share, used = found.share(step.id), _part(step.id, found)
        steps.append((step.name, share, used, share.part / used if used else None))
    return steps


def limits(project: Project, found: Standing, user: User) -> list[Limit]:
    """Of each user only of whoever used most, and of whoever looks."""
    return found.limits(project.pk, Few(MOST_USERS, user.pk))


def limits_above(project: Project, found: Standing, user: User) -> list[Above]:
    """The same of all projects above, the nearest first, as far as there are any."""
    few = Few(MOST_USERS, user.pk)
    lines = reversed(found.above(project.pk))
    above = (Above(one.name, found.limits(one.id, few)) for one in lines)
    return [one for one in above if one.limits]


def limits_of_users(
    project: Project, found: Standing, wanted: Mapping[str, str]
) -> tuple[Page[Limit], dict[int, str]]:
    """All limits for single users, or what the URL asks for of them, with the users' names."""
    alike = [
        one
        for one in found.limits(project.pk)
        if one.user_id is not None
        and wanted.get("limit", one.rule.limited) == one.rule.limited
        and wanted.get("band", one.rule.band or "") == (one.rule.band or "")
    ]
    page = Paginator(alike, PAGE_SIZE).get_page(wanted.get("page", "1"))
    return page, names_of(page.object_list)


def names_of(limits: Iterable[Limit]) -> dict[int, str]:
    """The account names of those whose limits these are."""
    ids = {limit.user_id for limit in limits if limit.user_id is not None}
    return dict(User.objects.filter(pk__in=ids).values_list("pk", "username"))


def events(project: Project, number: str) -> Page[Event]:
    """What was done to it, the latest first."""
    rows = Event.objects.filter(project=project).select_related("actor").order_by("-pk")
    return Paginator(rows, EVENTS).get_page(number)


def open_jobs(ids: Collection[int]) -> dict[int, tuple[int, int]]:
    """Running and waiting jobs of each project that has any, each task of an array as one."""
    running = Count("pk", filter=Q(state__in=lifecycle.ACTIVE))
    waiting = Count("pk", filter=Q(state__in=lifecycle.WAITING))
    open_ = Job.objects.filter(state__in=lifecycle.ACTIVE | lifecycle.WAITING, project__in=ids)
    rows = open_.order_by().values_list("project_id").annotate(runs=running, waits=waiting)
    return {project_id: (active, pending) for project_id, active, pending in rows}


def _fitting(wanted: Filter, user: User) -> QuerySet[Project]:
    rows = Project.objects.order_by("pk")
    if not wanted.archived:
        rows = rows.filter(archived_at=None)
    if wanted.mine:
        rows = rows.filter(members=user)
    if wanted.q:
        rows = rows.filter(Q(name__icontains=wanted.q) | Q(title__icontains=wanted.q))
    return rows


def _row(project: Project, depth: int, found: Standing, counts: tuple[int, int]) -> TreeRow:
    left = found.for_all(project.pk)
    return TreeRow(
        project=project,
        depth=depth,
        path=tuple(above.name for above in found.above(project.pk)),
        share=found.share(project.pk),
        decayed=found.decayed[project.pk],
        decayed_part=_part(project.pk, found),
        month=found.this_month[project.pk],
        gpus=left.get(Limited.GPUS),
        gpu_hours=left.get(Limited.GPU_HOURS),
        running=counts[0],
        waiting=counts[1],
    )


def _part(project_id: int, found: Standing) -> float:
    """U: of what its parent with all below used, the part that is its own."""
    parent = found.projects[project_id].parent_id
    if parent is None:
        whole = sum(found.decayed[top.id] for top in found.children[None])
    else:
        whole = found.decayed[parent]
    return found.decayed[project_id] / whole if whole else 0.0


def _position(member: Member, found: Standing) -> int:
    return found.fair_share[member.project_id, member.user_id].position
