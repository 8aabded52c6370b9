"""Use as its page shows it: told apart and narrowed as the URL says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import fsum
from urllib.parse import urlencode

from django.utils.functional import cached_property

from jobs.bands import Band
from portal.models import DailyUsage, Project, User
from portal.queries import accounts
from portal.queries.books import Only
from portal.queries.spans import RANGE, Span
from portal.queries.usage import By, Used, usage

NAMED = ("project", "user", "band", "model")
LONGEST_NAME = 200
FIRST = 10
NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Filter:
    """What the URL asks for. Names that there are not let nothing through, and are told."""

    by: By
    span: Span
    project: str
    user: str
    band: str
    model: str
    only: Only
    problems: tuple[str, ...]

    @classmethod
    def read(cls, query: Mapping[str, str], now: datetime) -> Filter:
        names = {name: _clean(query.get(name, "")) for name in NAMED}
        span = Span.read(query, now)
        by, problems = By.PROJECT, list(span.problems)
        wanted = query.get("by", "").strip()
        if wanted in list(By):
            by = By(wanted)
        elif wanted:
            problems.append(f"Use cannot be told by {wanted[:40]!r}; it is told by project.")
        only, strange = _only(names)
        return cls(by, span, **names, only=only, problems=(*problems, *strange))

    @property
    def named(self) -> dict[str, str]:
        """The names that narrow it."""
        found = {name: getattr(self, name) for name in NAMED}
        return {name: value for name, value in found.items() if value}

    @property
    def narrowed(self) -> bool:
        return bool(self.named or self.span.period)

    def url(self, **changes: str) -> str:
        """The query string with changes; an empty word takes one out."""
        by = {} if self.by is By.PROJECT else {"by": self.by.value}
        wanted = by | self.span.parameters | self.named | changes
        return "?" + urlencode({name: value for name, value in wanted.items() if value})

    def inside(self, used: Used) -> str:
        """Where a row leads: to what it is made of. Empty where no filter can say that."""
        if self.by is By.DAY:
            day = used.name
            return self.url(**{"by": By.PROJECT, "period": RANGE, "from": day, "to": day})
        if self.by is By.MODEL and not used.key:
            return ""
        return self.url(**{"by": By.DAY, self.by.value: used.name})


@dataclass(frozen=True)
class Table:
    """Rows, and their sum."""

    by: By
    rows: list[Used]

    @cached_property
    def gpu_hours(self) -> float:
        return fsum(row.gpu_hours for row in self.rows)

    @cached_property
    def weighted_hours(self) -> float:
        return fsum(row.weighted_hours for row in self.rows)

    @property
    def parts(self) -> list[tuple[Used, float]]:
        """Each row with its part of all GPU-hours."""
        whole = self.gpu_hours
        return [(row, row.gpu_hours / whole if whole else 0.0) for row in self.rows]

    @property
    def first(self) -> list[tuple[Used, float]]:
        """Some of these, where a table is one of several."""
        return self.parts[:FIRST]

    @property
    def others(self) -> int:
        """How many more there are."""
        return max(0, len(self.rows) - FIRST)


def table(by: By, span: Span, only: Only, *, now: datetime) -> Table:
    """What was used in that time."""
    return Table(by, usage(by, span.since, span.until, now=now, only=only))


def choices() -> dict[str, list[str]]:
    """What can be filtered by."""
    users = User.objects.filter(pk__in=DailyUsage.objects.order_by().values("user"))
    models = DailyUsage.objects.exclude(gpu_model="").order_by("gpu_model")
    return {
        "projects": list(Project.objects.values_list("name", flat=True)),
        "users": list(users.order_by("username").values_list("username", flat=True)),
        "bands": [band.value for band in Band],
        "models": list(models.values_list("gpu_model", flat=True).distinct()),
    }


def _clean(text: str) -> str:
    return text.replace("\0", "").strip()[:LONGEST_NAME]


def _only(names: Mapping[str, str]) -> tuple[Only, list[str]]:
    problems = []
    project = Project.objects.filter(name=names["project"]).first() if names["project"] else None
    user = User.objects.filter(username=names["user"]).first() if names["user"] else None
    for kind, found in (("project", project), ("user", user)):
        if names[kind] and found is None:
            problems.append(f"There is no {kind} {names[kind]!r}.")
    if names["band"] and names["band"] not in list(Band):
        problems.append(f"There is no band {names['band']!r}; there is {', '.join(Band)}.")
    only = Only(
        projects=_projects(names["project"], project),
        users=frozenset({user.pk}) if user else NOTHING if names["user"] else None,
        bands=frozenset({names["band"]}) if names["band"] else None,
        gpu_models=frozenset({names["model"]}) if names["model"] else None,
    )
    return only, problems


def _projects(name: str, found: Project | None) -> frozenset[int] | None:
    if not name:
        return None
    return accounts.below(found.pk) if found else NOTHING
