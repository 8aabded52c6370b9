"""The overview: what is going on, mine first."""

from __future__ import annotations

from django.db.models import Case, IntegerField, QuerySet, Value, When

from jobs.lifecycle import ACTIVE, ENDED, WAITING
from portal.models import Job, Node, User
from portal.queries.queue import Row, open_counts, positions, with_row_parts

SHOWN = 10
"""Jobs of each list; the queue shows the others."""


def open_jobs(*, user: User) -> list[Row]:
    """Running and pending jobs, mine first, then those that run, then the oldest."""
    mine = Case(When(owner=user, then=Value(0)), default=Value(1), output_field=IntegerField())
    waits = Case(
        When(state__in=WAITING, then=Value(1)), default=Value(0), output_field=IntegerField()
    )
    found = Job.objects.filter(state__in=ACTIVE | WAITING)
    return _rows(found.order_by(mine, waits, "submitted_at", "id")[:SHOWN])


def ended_jobs(*, user: User) -> list[Row]:
    """The last jobs that ended: mine, and everybody's while I have none."""
    ended = Job.objects.filter(state__in=ENDED).order_by("-ended_at", "-id")
    return _rows(ended.filter(owner=user)[:SHOWN]) or _rows(ended[:SHOWN])


def _rows(jobs: QuerySet[Job]) -> list[Row]:
    found = list(with_row_parts(jobs))
    places = positions([job for job in found if job.waiting])
    return [Row(job, places.get(job.pk)) for job in found]


def counts(*, user: User) -> dict[str, int]:
    """How many jobs run and wait, and how many of both are mine."""
    return open_counts(user=user)


def first_steps(*, user: User) -> dict[str, bool]:
    """What a newcomer has yet to do: a lab needs nodes, a person a project and a first job."""
    return {
        "has_nodes": Node.objects.exists(),
        "has_project": user.is_staff or user.memberships.exists(),
        "has_jobs": user.jobs.exists(),
    }
