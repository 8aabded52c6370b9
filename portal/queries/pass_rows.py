"""The jobs that a pass looks at, as rows of the database."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from jobs import lifecycle
from jobs.lifecycle import State
from jobs.scheduler.work import Work
from jobs.spec import JobSpec
from portal.models import Job, Prepared
from portal.queries import window

MAX_PENDING = 20_000
"""Waiting jobs looked at in one pass, as a pass is bounded."""


class Row(NamedTuple):
    """A job that waits or holds something, less its specification, by the names of its columns."""

    pk: int
    owner_id: int
    owner__username: str
    project_id: int
    project__name: str
    name: str
    partition__name: str
    submitted_at: datetime
    started_at: datetime | None
    walltime_s: int
    held: bool
    held_by_admin: bool
    reason: str
    array_id: int | None
    array_index: int | None
    band: str
    nice: int
    node_count: int
    gpus_per_node: int
    claimed_at: datetime | None
    eligible_at: datetime | None
    waited_before_s: float
    preemptions: int
    spec_text: str
    """Its specification as JSON; not a column."""

    def work(self, spec: JobSpec) -> Work:
        """What its run time is foretold from."""
        return Work.of(
            self.owner_id, self.project_id, self.name, spec.resources, self.walltime_s,
            called=self.project__name,
        )  # fmt: skip


def _rows(jobs: QuerySet[Job]) -> QuerySet[Job, Any]:
    return jobs.annotate(spec_text=Cast("spec", TextField())).values_list(*Row._fields)


_waiting = Job.objects.filter(state=State.PENDING)
_active = Prepared(
    lambda: _rows(Job.objects.filter(state__in=lifecycle.ACTIVE).order_by()), Row._make
)


def active() -> list[Row]:
    """Those that hold something."""
    return _active.rows()


@cache
def _first(number: int) -> Prepared[Row]:
    """Those that wait longest."""
    return Prepared(lambda: _rows(_waiting.order_by("submitted_at", "id")[:number]), Row._make)


def waiting() -> list[Row]:
    """Those that a pass looks at."""
    # Most often these are all, and no other query is needed.
    found = _first(MAX_PENDING + 1).rows()
    if len(found) <= MAX_PENDING:
        return found
    return [Row._make(row) for row in _rows(window.in_sight(_waiting)[:MAX_PENDING])]
