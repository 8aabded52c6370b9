"""What was sent to nodes, and what would be sent too late."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django.db.models import Exists, OuterRef, QuerySet

from jobs.scheduler.closures import LAUNCH_S, MARGIN_S
from portal.models import Allocation, Attempt, Job, Reservation
from portal.queries import accounts, machines, snapshot, specs

ALLOWED = timedelta(seconds=LAUNCH_S)
"""Within this of the pass it is as the plan has it, and nobody looks again."""
MARGIN = timedelta(seconds=MARGIN_S)
DELAYED = "Its launch was delayed: "
"""What is told of those begins with it, of no others."""


def sent(attempts: QuerySet[Attempt]) -> QuerySet[Attempt]:
    """Those of them of which anything may ever have reached a node."""
    parts = Allocation.objects.filter(attempt=OuterRef("pk"))
    return attempts.filter(Exists(parts.exclude(phase=Allocation.Phase.VOID, tries=0)))


def too_late(parts: QuerySet[Allocation], now: datetime) -> dict[Allocation, str]:
    """Those of them whose jobs a pass would not start on their nodes any more, were they planned
    now, and why: each would reach into a reservation, or past its deadline."""
    overdue = parts.filter(attempt__started_at__lt=now - ALLOWED).select_related("attempt__job")
    found = list(overdue.order_by("pk"))
    if not found:
        return {}
    places = _Places({part.attempt_id for part in found}, now)
    whys = ((part, _why(part, places, now)) for part in found)
    return {part: DELAYED + why for part, why in whys if why}


class _Places:
    """Where attempts are to run, and what is reserved there."""

    def __init__(self, attempts: Iterable[int], now: datetime) -> None:
        self._reserved = machines.reservations(now)
        self._usable = snapshot.usable(self._reserved, accounts.projects())
        parts = Allocation.objects.filter(attempt__in=attempts).order_by("rank")
        self._nodes: dict[int, dict[int, str]] = {}
        for attempt_id, node_id, name in parts.values_list("attempt_id", "node_id", "node__name"):
            self._nodes.setdefault(attempt_id, {})[node_id] = name

    def closed_to(self, part: Allocation) -> Iterable[tuple[str, Reservation]]:
        """A node of its attempt, by name, with a reservation that is not for its job."""
        job = part.attempt.job
        allowed = snapshot.may_use(self._usable, job.project_id, job.owner_id)
        for row in self._reserved:
            for node in row.nodes.all() if row.pk not in allowed else ():
                if name := self._nodes[part.attempt_id].get(node.pk):
                    yield name, row


def _why(part: Allocation, places: _Places, now: datetime) -> str:
    """Nothing where it comes in time."""
    # All of a gang: none of it may begin where the rest may not.
    job = part.attempt.job
    ends_by = now.astimezone(UTC) + timedelta(seconds=job.walltime_s)
    deadline = _deadline(job)
    if deadline is not None and ends_by > deadline:
        return "it could no longer end before its deadline."
    for node, row in places.closed_to(part):
        if row.starts_at <= now:
            return f"{node} is reserved for {row.name}."
        if ends_by + MARGIN > row.starts_at:
            return f"it could no longer end before {node} is reserved for {row.name}."
    return ""


def _deadline(job: Job) -> datetime | None:
    try:
        return specs.stored(job.spec).deadline_at
    except (TypeError, ValueError):
        return None
