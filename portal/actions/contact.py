"""What a look at a node says of how it can be reached: it answered, or not, or not any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Q

from jobs.nodes.transport import NodeError
from portal import hints, live
from portal.actions import leases
from portal.models import Event, Node

MISSES = 3
"""Times in a row without an answer before a node counts as unreachable."""
MISSES_APART = timedelta(seconds=1)


def answered(
    *,
    node: Node,
    boot_id: str,
    clock: float | None,
    problems: tuple[str, ...] | None,
    now: datetime,
) -> None:
    """A look at the node brought an answer; `problems` is None when it was no full look."""
    changes: dict[str, Any] = {"seen_at": now, "missed": 0, **leases.reading(clock, boot_id)}
    if problems is not None:
        changes |= {"tried_at": now, "notes": list(problems)}
    # A node that cannot be probed may answer looks, and is of no use all the same.
    back = node.health != Node.Health.UP and node.probed_at is not None
    if back:
        changes |= {"health": Node.Health.UP, "health_since": now, "problem": ""}
    Node.objects.filter(pk=node.pk).update(**changes)
    if boot_id != node.boot_id:
        _restarted(node, boot_id, now)
    if back:
        Event.objects.create(at=now, node=node, kind="answers again")
        live.changed("nodes", f"node-{node.pk}")
        hints.dispatch(node.pk)
        hints.schedule()


def _restarted(node: Node, boot_id: str, now: datetime) -> None:
    """Who opened the machine may have changed what is in it."""
    known = Node.objects.filter(pk=node.pk, boot_id=node.boot_id)
    if not node.boot_id:
        known.update(boot_id=boot_id)
    elif known.update(boot_id=boot_id, probed_at=None):
        Event.objects.create(at=now, node=node, kind="restarted", detail="It has a new boot id.")
        hints.look(node.pk)


def missed(*, node: Node, error: NodeError, now: datetime, at_once: bool = False) -> None:
    """A node did not answer. Its jobs are left alone: nothing is known of them.

    It counts as out of reach after `MISSES` in a row, or `at_once`.
    """
    # Whatever was under way when a connection broke is one miss, not many.
    apart = Q(missed=0) | Q(tried_at=None) | Q(tried_at__lt=now - MISSES_APART)
    Node.objects.filter(apart, pk=node.pk).update(missed=F("missed") + 1, tried_at=now)
    node.refresh_from_db(fields=["missed", "health"])
    gone = at_once or node.missed >= MISSES
    if gone and node.health != Node.Health.UNREACHABLE:
        unreachable(node=node, error=error, now=now)
        Event.objects.create(at=now, node=node, kind="does not answer", detail=error.message)
        hints.schedule()


def unreachable(*, node: Node, error: NodeError, now: datetime) -> None:
    """It is out of reach, and `error` says why."""
    changes = {"health": Node.Health.UNREACHABLE, "problem": f"{error.message} {error.advice}"}
    if node.health != Node.Health.UNREACHABLE:
        changes["health_since"] = now  # type: ignore[assignment]
    Node.objects.filter(pk=node.pk).update(tried_at=now, **changes)
    live.changed("nodes", f"node-{node.pk}")
