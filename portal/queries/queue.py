"""The queue as a page shows it: filtered by the URL, paged by the database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.utils.functional import cached_property

from jobs import lifecycle
from jobs.lifecycle import State
from portal.models import Allocation, Job, Node, Partition, Project, User
from portal.queries.arrays import folded
from portal.queries.rows import Row, rows, with_row_parts

PAGE_SIZE = 50
COUNTED = 10_000
"""More are not counted: nobody pages that far, and counting a million costs a second."""

OPEN = lifecycle.WAITING | lifecycle.ACTIVE
STATE_GROUPS: dict[str, frozenset[State]] = {
    "": OPEN,
    "waiting": lifecycle.WAITING,
    "active": lifecycle.ACTIVE,
    "ended": lifecycle.ENDED,
    "failed": lifecycle.ENDED - {State.COMPLETED, State.CANCELLED},
    "all": frozenset(State),
}
SORTS = ("queue", "start", "newest", "oldest", "gpus", "walltime", "name")
OPEN_ONLY = frozenset({"queue", "start", "gpus", "walltime", "name"})
"""Orders without an index: fine for thousands that wait and run, not for all that ever ended."""
_LARGEST_ID = 2**63 - 1
_OF_ARRAY = re.compile(r"[0-9]+_[0-9]+")


@dataclass(frozen=True)
class Filter:
    """What the URL asks for; what it says wrongly is in `problems` and left out of the filter."""

    state: str = ""
    owner: str = ""
    project: str = ""
    partition: str = ""
    node: str = ""
    q: str = ""
    array: str = ""
    mine: bool = False
    sort: str = ""
    problems: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filter:
        """From a request's query string."""
        words = {
            name: query.get(name, "").strip().replace("\0", "")
            for name in ("owner", "project", "partition", "node", "q")
        }
        state, sort, array = (query.get(name, "").strip() for name in ("state", "sort", "array"))
        problems = []
        if state not in STATE_GROUPS and state not in State.__members__:
            problems.append(f"There is no state {state!r}; all open jobs are shown.")
            state = ""
        if sort and sort not in SORTS:
            problems.append(f"There is no order {sort!r}; the usual one is used.")
            sort = ""
        if sort in OPEN_ONLY and not _states(state) <= OPEN:
            problems.append("Jobs that ended are listed newest or oldest first.")
            sort = ""
        if array and _number(array) is None:
            problems.append(f"{array!r} is not the number of an array.")
            array = ""
        return cls(
            state=state, sort=sort, array=array, mine=query.get("mine") == "1",
            problems=tuple(problems), **words,
        )  # fmt: skip

    @property
    def states(self) -> frozenset[State]:
        return _states(self.state)

    @property
    def order(self) -> str:
        """The order asked for, or the one that suits the states."""
        if self.sort:
            return self.sort
        if self.states <= OPEN:
            return "queue"
        return "oldest" if self.array else "newest"

    @property
    def folds(self) -> bool:
        """Whether an array is one row: not where its jobs themselves are asked for."""
        return not self.array and not _OF_ARRAY.fullmatch(self.q)

    @property
    def narrowed(self) -> bool:
        """Whether anything but the order differs from the plain page."""
        return replace(self, sort="") != Filter()

    def url(self, **changes: Any) -> str:
        """The query string of this filter with changes: `?state=ended&mine=1`, or `?`."""
        wanted = replace(self, **changes) if changes else self
        named = {
            name: "1" if value is True else value
            for name, value in vars(wanted).items()
            if value and name != "problems"
        }
        return "?" + urlencode(named)


def _states(word: str) -> frozenset[State]:
    return STATE_GROUPS.get(word) or frozenset({State(word)})


class _BoundedPaginator(Paginator):
    """Of a long list counts the rows up to the wanted page only, and one more."""

    def __init__(self, rows: QuerySet[Job], jobs: QuerySet[Job], number: str) -> None:
        super().__init__(rows, PAGE_SIZE)
        self._rows, self._jobs = rows.order_by(), jobs.order_by()
        wanted = _number(number) or 1
        self._reach = min(wanted * PAGE_SIZE, COUNTED)

    @cached_property
    def whole(self) -> bool:
        """Whether all were counted."""
        return self._jobs[: COUNTED + 1].count() <= COUNTED

    @cached_property
    def count(self) -> int:
        return (self._rows if self.whole else self._rows[: self._reach + 1]).count()


def page(*, wanted: Filter, user: User, number: str) -> tuple[_BoundedPaginator, list[Row], int]:
    """The paginator, the rows of one page (with what a row shows) and the page's number."""
    jobs = _ordered(_found(wanted, user), wanted)
    alike = _particular(Job.objects.filter(state__in=wanted.states), wanted)
    newest = wanted.order == "newest"
    listed = folded(jobs, alike, newest=newest) if wanted.folds else jobs
    paginator = _BoundedPaginator(with_row_parts(listed), jobs, number)
    shown = paginator.get_page(number)
    return paginator, rows(shown.object_list, of=alike if wanted.folds else None), shown.number


def _found(wanted: Filter, user: User) -> QuerySet[Job]:
    jobs = _in_states(wanted)
    if wanted.mine:
        jobs = jobs.filter(owner=user)
    if wanted.owner:
        jobs = jobs.filter(owner__username=wanted.owner)
    if wanted.project:
        jobs = jobs.filter(project__name=wanted.project)
    if wanted.array:
        jobs = jobs.filter(array_id=int(wanted.array))
    return _particular(jobs, wanted)


def _particular(jobs: QuerySet[Job], wanted: Filter) -> QuerySet[Job]:
    """Those that fit in what may differ between the jobs of an array, besides their states."""
    if wanted.partition:
        jobs = jobs.filter(partition__name=wanted.partition)
    if wanted.node:
        there = Allocation.objects.filter(node__name=wanted.node).exclude(phase="void")
        jobs = jobs.filter(pk__in=there.values("attempt__job_id"))
    return jobs.filter(_named(wanted.q)) if wanted.q else jobs


def _named(text: str) -> Q:
    """By `17`, by `17_3`, or by a part of the name."""
    found = Q(name__icontains=text)
    number = _number(text)
    if number is not None:
        found |= Q(pk=number) | Q(array_id=number)
    array, _, index = text.partition("_")
    first, second = _number(array), _number(index)
    if first is not None and second is not None:
        found |= Q(array_id=first, array_index=second)
    return found


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()):
        return None
    number = int(text[:20])
    return number if number <= _LARGEST_ID else None


def _in_states(wanted: Filter) -> QuerySet[Job]:
    """Worded so that a database walks an index in the list's order, and sorts no million rows."""
    if wanted.state == "all":
        return Job.objects.all()
    if wanted.state == "ended":
        return Job.objects.filter(ended_at__isnull=False)
    if wanted.state == "failed":
        well = (State.COMPLETED, State.CANCELLED)
        return Job.objects.filter(ended_at__isnull=False).exclude(state__in=well)
    if len(wanted.states) == 1:
        return Job.objects.filter(state=next(iter(wanted.states)))
    return Job.objects.filter(state__in=wanted.states)


def _ordered(jobs: QuerySet[Job], wanted: Filter) -> QuerySet[Job]:
    match wanted.order:
        case "queue":
            # Those that run first, then those that wait, in their order.
            return _waiting_last(jobs, "position")
        case "start":
            return _waiting_last(jobs, "starts_at")
        case "gpus":
            sized = jobs.annotate(gpus_asked=F("node_count") * F("gpus_per_node"))
            return sized.order_by("-gpus_asked", "-id")
        case "walltime":
            return jobs.order_by("-walltime_s", "-id")
        case "name":
            return jobs.order_by("name", "-id")
        case order:
            keys = _by_age(wanted)
            return jobs.order_by(*(keys if order == "oldest" else [f"-{key}" for key in keys]))


def _waiting_last(jobs: QuerySet[Job], told: str) -> QuerySet[Job]:
    """Those that run as they were submitted, then those that wait, by this column."""
    waits = When(state__in=lifecycle.WAITING, then=Value(1))
    ranked = jobs.annotate(rank=Case(waits, default=Value(0)))
    # What a running job was told while it waited still stands in its row.
    order = Case(When(state__in=lifecycle.WAITING, then=F(told))).asc(nulls_last=True)
    return ranked.order_by("rank", order, "submitted_at", "id")


def _by_age(wanted: Filter) -> list[str]:
    """The columns of the index that serves these states, oldest first."""
    if wanted.state == "all":
        return ["id"]
    return ["ended_at", "id"] if wanted.state in ("ended", "failed") else ["submitted_at", "id"]


def open_counts(*, user: User, array: str = "") -> dict[str, int]:
    """How many jobs wait and how many run, of all (or of this array) and of mine."""
    jobs = Job.objects.filter(state__in=OPEN)
    if array:
        jobs = jobs.filter(array_id=int(array))
    counts = jobs.aggregate(
        open=Count("pk"),
        waiting=Count("pk", filter=Q(state__in=lifecycle.WAITING)),
        active=Count("pk", filter=Q(state__in=lifecycle.ACTIVE)),
        mine=Count("pk", filter=Q(owner=user)),
    )
    return {name: number or 0 for name, number in counts.items()}


def choices() -> dict[str, list[str]]:
    """What can be filtered by, for the form's lists."""
    return {
        "owners": list(
            User.objects.filter(Exists(Job.objects.filter(owner=OuterRef("pk"))))
            .order_by("username")
            .values_list("username", flat=True)
        ),
        "projects": list(Project.objects.values_list("name", flat=True)),
        "partitions": list(Partition.objects.values_list("name", flat=True)),
        "nodes": list(Node.objects.values_list("name", flat=True)),
    }
