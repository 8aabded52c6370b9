"""The overview: what is going on, mine first."""

from __future__ import annotations

from django.db.models import Case, Exists, IntegerField, OuterRef, Value, When

from jobs.lifecycle import ENDED, WAITING
from portal.models import Job, Node, User
from portal.queries.arrays import folded
from portal.queries.queue import OPEN, open_counts
from portal.queries.rows import Row, rows, with_row_parts

SHOWN = 10
"""Jobs of each list; the queue shows the others."""


def jobs(*, user: User) -> tuple[list[Row], list[Row]]:
    """What is open and what ended; what ends between the two readings is among the ended only."""
    still = open_jobs(user=user)
    ended = ended_jobs(user=user)
    gone = {row.key for row in ended}
    return [row for row in still if row.key not in gone], ended


def open_jobs(*, user: User) -> list[Row]:
    """Running and pending jobs, mine first, then those that run, then the oldest."""
    mine = Case(When(owner=user, then=Value(0)), default=Value(1), output_field=IntegerField())
    waits = Case(
        When(state__in=WAITING, then=Value(1)), default=Value(0), output_field=IntegerField()
    )
    found = Job.objects.filter(state__in=OPEN)
    listed = with_row_parts(folded(found, found, newest=False))
    return rows(listed.order_by(mine, waits, "submitted_at", "id")[:SHOWN], of=found)


def ended_jobs(*, user: User) -> list[Row]:
    """The last jobs and arrays that ended: mine, and everybody's while I have none."""
    found = Job.objects.filter(state__in=ENDED)
    goes_on = Exists(Job.objects.filter(array_id=OuterRef("array_id"), state__in=OPEN))
    listed = with_row_parts(folded(found.exclude(goes_on), found, newest=True))
    listed = listed.order_by("-ended_at", "-id")
    return rows(listed.filter(owner=user)[:SHOWN], of=found) or rows(listed[:SHOWN], of=found)


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
