"""Trials of changes: what an administrator may try, in words, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.paginator import Page, Paginator

from jobs.scheduler.simulate.changes import Changes, ProjectChange, kinds
from jobs.scheduler.words import count
from portal.models import Accounting, Project, SchedulingPolicy, WhatIf
from portal.queries import machines, quota_tried

PER_PAGE = 25
Said = list[list[str]]
"""What, as it is, as it would be."""


def page(number: str) -> Page[WhatIf]:
    """The newest first."""
    rows = WhatIf.objects.select_related("asked_by").defer("changes")
    return Paginator(rows, PER_PAGE).get_page(number)


def said(changes: Changes) -> Said:
    """What differs of it from how it is now. Raises `Project.DoesNotExist`."""
    return [line for line in _lines(changes) if line[1] != line[2]]


def _lines(changes: Changes) -> Iterator[list[str]]:
    policy = SchedulingPolicy.current()
    for what in ("order", "backfill"):
        wanted = getattr(changes, what)
        if wanted is not None:
            yield [what.capitalize(), str(getattr(policy, what)), str(wanted)]
    if changes.reservations is not None:
        yield ["Jobs promised a time", str(policy.reservations), str(changes.reservations)]
    if changes.lends_at_top is not None:
        before = Accounting.current().lends
        yield ["Projects at the top lend", _yes(before), _yes(changes.lends_at_top)]
    for quota in changes.quotas:
        yield from quota_tried.lines(quota)
    for one in changes.projects:
        yield from _of_project(one)
    found = kinds(machines.reported())
    for other in changes.nodes:
        there = len(found.get(other.kind, ()))
        yield [f"Nodes {other.kind}", str(there), str(there + other.more)]


def _of_project(change: ProjectChange) -> Iterator[list[str]]:
    project = Project.objects.get(pk=change.project_id)
    if change.shares is not None:
        yield [f"Shares of {project}", str(project.shares), str(change.shares)]
    if change.lends is not None:
        yield [f"Children of {project} lend", _yes(project.lends), _yes(change.lends)]


def _yes(value: bool) -> str:
    return "yes" if value else "no"


@dataclass(frozen=True)
class Figure:
    """One figure, as it is and as it would be, None where no job was played; `better` is None where
    neither can be said."""

    name: str
    kind: str
    """How it is written: duration, percent, index, number or hours."""
    now: float | None
    then: float | None
    equal: bool
    better: bool | None


_FIGURES = (
    ("Mean wait", "mean_wait_s", "duration", -1),
    ("Median wait", "median_wait_s", "duration", -1),
    ("99th percentile of waits", "p99_wait_s", "duration", -1),
    ("Mean time from submission to end", "mean_completion_s", "duration", -1),
    ("GPUs in use", "allocated_share", "percent", 1),
    ("Fairness between projects", "fairness", "index", 1),
    ("Preemptions", "preemptions", "number", -1),
    ("GPU-hours lost by restarts", "lost_gpu_hours", "hours", -1),
)
SEEN = 0.005
"""Figures that differ by less, in relation to the larger one, count as equal."""
_LEAST = {"duration": 1.0, "index": 0.001, "percent": 0.001, "hours": 0.1}
"""So do those that differ by less than can be seen."""


def lines(result: Mapping[str, Any], *, other_nodes: bool) -> list[Figure]:
    """The figures of the two side by side. Of more GPUs the same jobs use a smaller part, which is
    no loss; and those of other jobs are neither better nor worse."""
    now, then, others = result["now"], result["then"], differ(result)
    return [
        *(
            _figure(
                name, kind, _of_jobs(now, key), _of_jobs(then, key),
                0 if others or (kind == "percent" and other_nodes) else sign,
            )
            for name, key, kind, sign in _FIGURES
        ),
        _figure("Jobs that could never start", "number", now["refused"], then["refused"], -1),
    ]  # fmt: skip


def differ(result: Mapping[str, Any]) -> int:
    """How many jobs only one of the two could start."""
    # What was played by an older version tells of no more.
    least = abs(result["now"]["refused"] - result["then"]["refused"])
    return max(least, sum(result.get("differ", {}).values()))


def _of_jobs(side: Mapping[str, Any], key: str) -> float | None:
    return side[key] if side["jobs"] else None


def _figure(name: str, kind: str, now: float | None, then: float | None, sign: int) -> Figure:
    if now is None or then is None:
        return Figure(name, kind, now, then, equal=False, better=None)
    equal = abs(then - now) <= max(SEEN * max(now, then), _LEAST.get(kind, 0.0))
    better = None if equal or not sign else (then - now) * sign > 0
    return Figure(name, kind, now, then, equal, better)


@dataclass(frozen=True)
class ProjectLine:
    """How one project fares; nothing is told of a side on which none of its jobs could start."""

    name: str
    jobs: str
    mean: Figure | None
    p99: Figure | None
    speed: Figure | None


def project_lines(result: Mapping[str, Any]) -> list[ProjectLine]:
    """All of them by name."""
    now, then = result["now"]["projects"], result["then"]["projects"]
    others = result.get("differ", {})
    return [
        _project(name, now.get(name), then.get(name), name in others)
        for name in sorted({*now, *then})
    ]  # fmt: skip


def _project(
    name: str, now: Mapping[str, Any] | None, then: Mapping[str, Any] | None, others: bool
) -> ProjectLine:
    if not now or not then:
        one = now or then or {"jobs": 0}
        where = "as it is" if now else "with the change"
        return ProjectLine(name, f"{count(one['jobs'], 'job')}, only {where}", None, None, None)
    same = now["jobs"] == then["jobs"]
    jobs = f"{now['jobs']:,}" if same else f"{now['jobs']:,} → {then['jobs']:,}"
    sign = 1 if same and not others else 0
    return ProjectLine(
        name,
        jobs,
        _figure("mean wait", "duration", now["mean_wait_s"], then["mean_wait_s"], -sign),
        _figure("99th percentile", "duration", now["p99_wait_s"], then["p99_wait_s"], -sign),
        _figure("speed", "index", 1 / now["slowdown"], 1 / then["slowdown"], sign),
    )


def unfinished(since: datetime) -> bool:
    """Whether one waits, or has run without a sign since then."""
    waiting, running = WhatIf.State.WAITING, WhatIf.State.RUNNING
    states = dict(
        WhatIf.objects.filter(state__in=WhatIf.UNFINISHED).values_list("state", "seen_at")
    )
    seen = states.get(running)
    lost = seen is not None and seen < since
    return lost or (waiting in states and running not in states)
