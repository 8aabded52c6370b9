"""Take a node out on which one job after the other fails right at its start."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice

from django.db import transaction
from django.db.models import Count, ExpressionWrapper, F, Max, Q, QuerySet
from django.db.models.fields import DurationField

from jobs.events import Cause
from jobs.nodes.signs import Sign
from jobs.scheduler.words import capital, jobs_named
from portal.actions import findings
from portal.models import Allocation, Event, Node

JOBS, USERS = 3, 2
"""So many jobs in a row, of so many different people at least: one person's may all be wrong."""
SOON = timedelta(minutes=1)
"""Within this of its start a run has hardly done anything yet."""
WITHIN = timedelta(hours=1)
CAUSES = (Cause.LAUNCH_FAILED, Cause.LOST)
"""What a job does not do to itself as a rule."""
KIND = "quarantine"


def sweep(*, now: datetime) -> list[Node]:
    """Open a finding on each node where that is so, and drain it; those nodes."""
    recent = _failed(Allocation.objects.filter(ended_at__gt=now - WITHIN))
    many = recent.order_by().values("node").annotate(number=Count("pk")).filter(number__gte=JOBS)
    nodes = Node.objects.filter(pk__in=[row["node"] for row in many], drained=False)
    return [node for node in nodes if _judge(node, now)]


def _failed(parts: QuerySet[Allocation]) -> QuerySet[Allocation]:
    """Those that ended so by themselves, and not since they were stopped or their node is off."""
    lasted = ExpressionWrapper(F("ended_at") - F("started_at"), output_field=DurationField())
    return parts.annotate(lasted=lasted).filter(
        Q(started_at=None) | Q(lasted__lt=SOON),
        phase=Allocation.Phase.ENDED, cause__in=CAUSES, stop_wanted_at=None,
    )  # fmt: skip


@transaction.atomic
def _judge(node: Node, now: datetime) -> bool:
    if findings.open_of(node).filter(kind=KIND).exists():
        return False
    ended = node.allocations.filter(phase=Allocation.Phase.ENDED, ended_at__gt=_since(node, now))
    last = list(ended.order_by("-ended_at", "-pk").values_list("pk", flat=True)[:JOBS])
    bad = list(_failed(node.allocations.filter(pk__in=last)).select_related("attempt__job__owner"))
    owners = {part.attempt.job.owner.username for part in bad}
    if len(bad) < JOBS or len(owners) < USERS:
        return False
    jobs = jobs_named(sorted(str(part.attempt.job_id) for part in bad))
    why = next(islice((part.message for part in bad if part.message), 1), "")
    text = f"{capital(jobs)} of {' and '.join(sorted(owners))}. The last one: {why}".rstrip(": ")
    sign = Sign(KIND, text[:1000])
    findings.open_(node=node, gpu=None, sign=sign, since=now, now=now)
    return True


def _since(node: Node, now: datetime) -> datetime:
    """What was before somebody let it take jobs again counts no more."""
    told = Event.objects.filter(node=node, kind__in=("resumed", "finding cleared"))
    let_in: datetime | None = told.aggregate(at=Max("at"))["at"]
    return max(now - WITHIN, let_in) if let_in else now - WITHIN
