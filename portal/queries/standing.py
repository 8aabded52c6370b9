"""Where projects and people stand at one moment: shares, what they used, what quotas leave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from math import fsum

from jobs.scheduler import fairshare
from jobs.scheduler.counters import Counters
from jobs.scheduler.fairshare import Association, Member, Project
from jobs.scheduler.limits import Limited, Quota, Rule, Scope, Usage
from jobs.scheduler.limits import Standing as Left
from portal.queries import accounts
from portal.queries.books import Books


@dataclass(frozen=True)
class Limit:
    """One limit of a quota, and what is left of it."""

    rule: Rule
    left: Left | None
    """None for what is not counted: walltime, partitions and models."""
    user_id: int | None = None
    """Whose it is, where it is one for each user."""
    others: int = 0
    """How many more users it is for who are not told of."""


@dataclass(frozen=True)
class Few:
    """Of a limit for each user only so many are told of, and one user in any case."""

    most: int
    user_id: int | None


@dataclass(frozen=True)
class Share:
    """S of a project or a member: its part of its own shares and those beside it."""

    own: int
    beside: int
    """With its own."""

    @property
    def part(self) -> float:
        return self.own / self.beside if self.beside else 0.0


@dataclass(frozen=True)
class Standing:
    """All figures are of the same moment, with what runs counted until then."""

    at: datetime
    projects: dict[int, Project]
    members: tuple[Member, ...]
    quotas: tuple[Quota, ...]
    lends: frozenset[int | None]
    balances: dict[Association, float]
    """Weighted GPU-seconds, decayed."""
    usage: Usage
    month: dict[int, float]
    """GPU-hours of this calendar month by project, without those below it."""

    @classmethod
    def read(cls, now: datetime, month: datetime) -> Standing:
        """In a constant number of queries; `month` is when this one began."""
        books = Books.read(now)
        quotas = accounts.quotas()
        sums = books.sums(("project_id",), month, now)
        return cls(
            at=now,
            projects={project.id: project for project in accounts.projects()},
            members=accounts.members(),
            quotas=quotas,
            lends=accounts.lends(),
            balances=books.balances(),
            usage=accounts.counted(books, quotas),
            month={project_id: used.gpu_seconds / 3600 for (project_id,), used in sums.items()},
        )

    @cached_property
    def counters(self) -> Counters:
        return Counters(self.projects.values(), self.quotas, self.usage, self.lends)

    @cached_property
    def fair_share(self) -> dict[Association, fairshare.Standing]:
        return fairshare.standings(self.projects.values(), self.members, self.balances)

    @cached_property
    def children(self) -> dict[int | None, list[Project]]:
        """By name."""
        found: dict[int | None, list[Project]] = defaultdict(list)
        for project in sorted(self.projects.values(), key=lambda one: one.name):
            found[project.parent_id].append(project)
        return found

    @cached_property
    def decayed(self) -> dict[int, float]:
        """Weighted GPU-hours of each project with all below it."""
        own: dict[int, float] = defaultdict(float)
        for (project_id, _), seconds in self.balances.items():
            own[project_id] += seconds / 3600
        return self._with_below(own)

    @cached_property
    def this_month(self) -> dict[int, float]:
        """GPU-hours of each project with all below it."""
        return self._with_below(self.month)

    def share(self, project_id: int) -> Share:
        """Of a project: its siblings are those with the same parent, and the parent's members."""
        project = self.projects[project_id]
        return Share(project.shares, self._shares_below[project.parent_id])

    def member_share(self, member: Member) -> Share:
        """Of a member: their siblings are the other members, and the sub-projects."""
        return Share(member.shares, self._shares_below[member.project_id])

    def above(self, project_id: int) -> list[Project]:
        """All projects above one, the top one first."""
        return list(self.counters.tree.line(project_id)[:0:-1])

    def walk(self) -> Iterable[tuple[Project, int]]:
        """The whole tree with the depth of each, parents before their children."""
        waiting = [(project, 0) for project in reversed(self.children[None])]
        while waiting:
            project, depth = waiting.pop()
            yield project, depth
            below = self.children.get(project.id, [])
            waiting += ((child, depth + 1) for child in reversed(below))

    def limits(self, project_id: int, few: Few | None = None) -> list[Limit]:
        """All limits of a project's own quotas; those of each user once for whoever has used any
        of it, the most used first, and once without anybody where nobody has."""
        found: list[Limit] = []
        for quota in self.quotas:
            if quota.project_id == project_id:
                for limits in self._limits(quota):
                    found += _shortened(limits, few) if few else limits
        return found

    def for_all(self, project_id: int) -> dict[Limited, Left]:
        """What is left of a project's limits for all users and bands together."""
        for quota in self.quotas:
            if (quota.project_id, quota.scope, quota.band) == (project_id, Scope.PROJECT, None):
                return self.counters.standing(quota)
        return {}

    def _limits(self, quota: Quota) -> Iterable[list[Limit]]:
        """Of each of its rules."""
        users: list[int | None] = [None]
        if quota.scope is Scope.USER:
            users = [*self._users_of(quota)]
        found = {user_id: self.counters.standing(quota, user_id) for user_id in users}
        for rule in self.counters.tree.of(quota):
            if rule.limited in _UNCOUNTED:
                yield [Limit(rule, None)]
                continue
            lefts = {user_id: standing[rule.limited] for user_id, standing in found.items()}
            limits = [
                Limit(rule, left, user_id)
                for user_id, left in sorted(lefts.items(), key=_most_used)
                if user_id is None or left.used or left.held
            ]
            yield limits or [Limit(rule, Left(rule.limit, 0, 0))]

    def _users_of(self, quota: Quota) -> list[int]:
        """Who has anything that counts against it, in the order of their ids."""
        inside = self._inside(quota.project_id)
        demands = (holding.demand for holding in self.usage.running)
        keys = [(one.project_id, one.user_id, one.band) for one in demands]
        keys += self.usage.pending
        if quota.limits.gpu_hours is not None:
            keys += self.usage.used.get(quota.period, {})
        return sorted({user_id for project_id, user_id, _ in keys if project_id in inside})

    def _inside(self, project_id: int) -> set[int]:
        found = [project_id]
        for above in found:
            found += (child.id for child in self.children.get(above, []))
        return set(found)

    @cached_property
    def _shares_below(self) -> dict[int | None, int]:
        found: dict[int | None, int] = defaultdict(int)
        for project in self.projects.values():
            found[project.parent_id] += project.shares
        for member in self.members:
            found[member.project_id] += member.shares
        return found

    def _with_below(self, own: dict[int, float]) -> dict[int, float]:
        parts: dict[int, list[float]] = {
            project_id: [own.get(project_id, 0.0)] for project_id in self.projects
        }
        totals: dict[int, float] = {}
        for project, _ in reversed(list(self.walk())):
            totals[project.id] = fsum(parts[project.id])
            if project.parent_id is not None:
                parts[project.parent_id].append(totals[project.id])
        return totals


def _most_used(of_user: tuple[int | None, Left]) -> tuple[float, int]:
    """Who has used most is first."""
    user_id, left = of_user
    return -left.used - left.held, user_id or 0


def _shortened(limits: list[Limit], few: Few) -> list[Limit]:
    own = [one for one in limits[few.most :] if one.user_id == few.user_id]
    told = limits[: few.most] + own
    return [*told[:-1], replace(told[-1], others=len(limits) - len(told))]


_UNCOUNTED = (Limited.WALLTIME, Limited.PARTITIONS, Limited.GPU_MODELS)
