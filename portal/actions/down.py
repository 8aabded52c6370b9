"""Take an administrator's word that a machine is off: nothing else could end its jobs."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from jobs.events import Cause
from portal import hints
from portal.actions import nodes, passes
from portal.actions.cases import lock
from portal.actions.settle import settle_locked
from portal.models import Allocation, Event, Node, User

Phase = Allocation.Phase


class NodeAnswers(Exception):
    """The node is not out of reach; `message` says what to do instead."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@transaction.atomic
def declare_off(*, node: Node, actor: User | None, now: datetime) -> list[int]:
    """End what ran there as lost, and drain the node; the ids of the jobs concerned.

    Should it come back after all, its processes are ended before anything else. Raises
    `NodeAnswers` for a node that is not out of reach.
    """
    passes.wait()
    held = node.allocations.filter(attempt__ended_at=None)
    ids = sorted(held.values_list("attempt__job_id", flat=True))
    jobs = lock(ids)
    node.refresh_from_db(from_queryset=Node.objects.select_for_update())
    if node.health == Node.Health.UP:
        raise NodeAnswers(
            f"{node.name} answers, so its jobs can be ended the usual way: drain it, then wait "
            "for them or cancel them."
        )
    word = f"{node.name} is off, says {actor or 'its administrator'}."
    nodes.drain(node=node, reason="off", actor=actor, now=now)
    Event.objects.create(at=now, node=node, kind="declared off", actor=actor)
    open_parts = node.allocations.filter(attempt__ended_at=None, phase__in=Allocation.OPEN)
    open_parts.filter(phase=Phase.PLANNED).update(phase=Phase.VOID, ended_at=now, message=word)
    open_parts.update(
        phase=Phase.ENDED, cause=Cause.LOST, message=word, ended_at=now,
        stop_wanted_at=now, stop_sent_at=None,
    )  # fmt: skip
    settle_locked(jobs=jobs, now=now)
    hints.schedule()
    return ids
