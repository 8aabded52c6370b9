"""Take from nodes that do not answer what has surely ended there: jobs go on elsewhere."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from jobs.events import Cause
from portal import hints
from portal.actions import leases, passes
from portal.actions.cases import lock
from portal.actions.leases import Term, Vigil
from portal.actions.settle import settle_locked
from portal.models import Allocation, Event, Node
from portal.queries import outage

Phase = Allocation.Phase


def recover(*, vigil: Vigil, clock: float, now: datetime) -> list[int]:
    """One round of it; the ids of the jobs that were taken from a node.

    `clock`: see `leases.clock`. Nothing is taken while so many nodes are silent that it is more
    likely us who are cut off.
    """
    over = vigil.over(leases.terms(), clock)
    if not over or outage.held():
        return []
    silent = Node.objects.filter(pk__in=over, health=Node.Health.UNREACHABLE)
    return [
        job_id
        for node in silent.order_by("pk")
        for job_id in _give_up(node, over[node.pk], now)
    ]  # fmt: skip


@transaction.atomic
def _give_up(node: Node, term: Term, now: datetime) -> list[int]:
    """End what is behind the node's fences, where its lease has not been prolonged since."""
    passes.wait()
    ids = sorted(set(leases.fenced().filter(node=node).values_list("attempt__job_id", flat=True)))
    jobs = lock(ids)
    unchanged = Node.objects.select_for_update().filter(
        pk=node.pk, health=Node.Health.UNREACHABLE,
        lease_boot_id=term.boot_id, lease_until=term.until,
    )  # fmt: skip
    if not unchanged.exists():
        return []
    since = timezone.localtime(node.health_since or now)
    word = (
        f"{node.name} has not answered since {since:%H:%M}. What ran there has ended with the "
        "node's lease."
    )
    leases.fenced().filter(node=node).update(
        phase=Phase.ENDED, cause=Cause.FENCED, message=word, ended_at=now,
        stop_wanted_at=now, stop_sent_at=None,
    )  # fmt: skip
    Event.objects.create(at=now, node=node, kind="given up", detail=word)
    settle_locked(jobs=jobs, now=now)
    hints.schedule()
    return ids
