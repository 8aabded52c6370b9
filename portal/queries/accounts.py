"""Projects, their members and quotas, and what counts against them, for `jobs.scheduler`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Any

from django.conf import settings
from django.db.models import Count

from jobs import lifecycle
from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.fairshare import Member, Project
from jobs.scheduler.limits import Account, Demand, Holding, Limits, Quota, Scope, Usage
from jobs.scheduler.periods import CalendarMonth, Period, Rolling, Slice
from jobs.scheduler.policy import Policy
from portal import models
from portal.models import Job, Membership, Prepared, SchedulingPolicy
from portal.queries.books import Books, Only
from portal.queries.meters import Meter, terms

UNFINISHED = lifecycle.WAITING | lifecycle.ACTIVE
COUNTED = frozenset(Band) - {Band.BEST_EFFORT}
"""The bands that count against quotas for all bands."""

_PROJECT = ("pk", "name", "parent_id", "shares", "lends")
_tree = Prepared(
    lambda: models.Project.objects.order_by("pk").values_list(*_PROJECT),
    lambda row: (Project(*row[:-1]), row[-1]),
)
_members = Prepared(
    lambda: Membership.objects.values_list("project_id", "user_id", "shares", "user__username"),
    lambda row: Member(*row),
)
_quotas = Prepared[Any](lambda: models.Quota.objects.order_by("pk"))
_policy = Prepared(SchedulingPolicy.objects.all, lambda row: SchedulingPolicy(*row).policy)


def projects() -> tuple[Project, ...]:
    """The whole tree. Archived ones too: what they used counts for those above them."""
    return tree()[0]


def tree() -> tuple[tuple[Project, ...], frozenset[int]]:
    """All projects, and those of them whose children lend to each other."""
    rows = _tree.rows()
    return tuple(row for row, _ in rows), frozenset(row.id for row, lends in rows if lends)


def below(*project_ids: int, tree: Iterable[Project] | None = None) -> frozenset[int]:
    """These projects and all below them, in a tree that was read, or else as it is now."""
    levels = _levels_below(*project_ids, tree=projects() if tree is None else tree)
    return frozenset(chain.from_iterable(levels))


def lineage(tree: Iterable[Project]) -> dict[int, list[int]]:
    """Of each project itself, its parent, and so on to the top."""
    parents = {project.id: project.parent_id for project in tree}
    found: dict[int, list[int]] = {}
    for project_id in parents:
        line, above = [project_id], parents[project_id]
        while above is not None:
            line.append(above)
            above = parents[above]
        found[project_id] = line
    return found


def height(project_id: int) -> int:
    """How many levels a project has with all below it: 1 where nothing is."""
    return len(_levels_below(project_id, tree=projects()))


def depth(project_id: int) -> int:
    """On which level it is: 1 at the top."""
    return len(lineage(projects())[project_id])


def _levels_below(*project_ids: int, tree: Iterable[Project]) -> list[list[int]]:
    """The projects themselves, their children, the children of these and so on."""
    children: dict[int | None, list[int]] = defaultdict(list)
    for project in tree:
        children[project.parent_id].append(project.id)
    found, level = [], [*project_ids]
    while level:
        found.append(level)
        level = [child for parent in level for child in children[parent]]
    return found


def members(with_jobs: Iterable[tuple[int, int, str]] | None = None) -> tuple[Member, ...]:
    """Who has a share in which project; with one share each, who only has jobs there:
    administrators, and former members. `with_jobs` are project, user and user's name of jobs that
    have not ended, where somebody has read them."""
    found = {(row.project_id, row.user_id): row for row in _members.rows()}
    if with_jobs is None:
        unfinished = Job.objects.filter(state__in=UNFINISHED).order_by()
        guests = unfinished.values_list("project_id", "owner_id", "owner__username")
        with_jobs = guests.distinct()
    for project_id, user_id, name in with_jobs:
        found.setdefault((project_id, user_id), Member(project_id, user_id, 1, name))
    return tuple(found[key] for key in sorted(found))


def quotas() -> tuple[Quota, ...]:
    """Whatever is limited, of all projects."""
    return tuple(quota(models.Quota(*row)) for row in _quotas.rows())


def quota(row: models.Quota) -> Quota:
    """A row as the scheduler's value. Raises `ValueError` for what is none."""
    return Quota(
        project_id=row.project_id,
        limits=Limits(
            gpus=row.gpus,
            gpu_hours=row.gpu_hours,
            jobs_running=row.jobs_running,
            jobs_pending=row.jobs_pending,
            walltime_s=row.walltime_s,
            partitions=_names(row.partitions),
            gpu_models=_names(row.gpu_models),
        ),
        scope=Scope(row.scope),
        band=Band(row.band) if row.band else None,
        period=_period(row),
    )


def lends() -> frozenset[int | None]:
    """The projects whose children lend to each other; None for those without a parent."""
    lenders = tree()[1]
    return lenders | {None} if terms().lends else lenders


def policy() -> Policy:
    """How jobs are scheduled."""
    return next(iter(_policy.rows()), None) or SchedulingPolicy().policy


def counted(books: Books, limits: Iterable[Quota]) -> Usage:
    """All that counts against these quotas."""
    of_hours = [quota for quota in limits if quota.limits.gpu_hours is not None]
    return Usage(
        at=books.now,
        running=_running(books),
        pending=pending(),
        used=books.used({quota.period for quota in of_hours}),
        history=_history(books, of_hours),
    )


def _history(books: Books, limits: Iterable[Quota]) -> Callable[[Account], tuple[Slice, ...]]:
    """Summed up by the database, once for whoever it is asked of, in the tree of this moment: that
    of a preview is gone when it is asked."""
    longest: dict[int, int] = defaultdict(int)
    for one in limits:
        if isinstance(one.period, Rolling):
            longest[one.project_id] = max(longest[one.project_id], one.period.days)
    tree = projects() if longest else ()

    @cache
    def read(account: Account) -> tuple[Slice, ...]:
        project_id, user_id, band = account
        only = Only(
            projects=below(project_id, tree=tree),
            users=None if user_id is None else frozenset({user_id}),
            bands=frozenset({band} if band else COUNTED),
        )
        return books.history(Rolling(longest[project_id]).begin(books.now), only)

    return read


def gpus_held(books: Books) -> dict[int, float]:
    """By job, as how many GPUs it counts now: parts as fractions, of whole nodes all."""
    gpus: dict[int, float] = {}
    for meter in books.running:
        if meter.released_at is None:
            gpus[meter.job_id] = gpus.get(meter.job_id, 0.0) + meter.gpus
    return gpus


def _running(books: Books) -> tuple[Holding, ...]:
    by_job: dict[int, list[Meter]] = defaultdict(list)
    for meter in books.running:
        if meter.released_at is None:
            by_job[meter.job_id].append(meter)
    return tuple(_holding(job_id, by_job[job_id], books.now) for job_id in sorted(by_job))


def _holding(job_id: int, parts: list[Meter], now: datetime) -> Holding:
    first, gpus = parts[0], sum(part.gpus for part in parts)
    demand = Demand(job_id, *first.account, gpus, first.walltime_s, first.partition)
    # One that is about to start has its walltime still before it.
    return Holding(demand, first.job_started_at or now)


def pending() -> dict[tuple[int, int, Band], int]:
    """How many jobs wait, by project, user and band."""
    waiting = Job.objects.filter(state=State.PENDING).order_by()
    counts = waiting.values_list("project_id", "owner_id", "band").annotate(Count("pk"))
    return {(project_id, user_id, Band(band)): count for project_id, user_id, band, count in counts}


def _names(given: list[str] | None) -> frozenset[str] | None:
    return None if given is None else frozenset(given)


def _period(row: models.Quota) -> Period:
    if row.period == models.Quota.PeriodKind.ROLLING:
        return Rolling(row.period_days or 0)
    return CalendarMonth(settings.TIME_ZONE)
