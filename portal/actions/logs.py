"""Bring the logs of ended runs home, and tidy their nodes."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from jobs.nodes.transport import NodeError
from portal import archive, live, reach
from portal.actions import nodes
from portal.models import Allocation, Node
from portal.queries.logs import MAX_RANGE

KEEP_ON_NODE = timedelta(days=1)
"""How long an ended run's directory stays on its node after its log was brought here."""
FETCHED_WITHIN = timedelta(days=30)
"""How long after its end a log is still asked for."""

warn = logging.getLogger(__name__).warning


def keep(*, allocation_id: int, now: datetime) -> bool:
    """Copy an ended run's log into the archive; False when its node does not answer."""
    part = Allocation.objects.select_related("node", "attempt").get(pk=allocation_id)
    if part.log_kept or part.phase != Allocation.Phase.ENDED:
        return True
    try:
        engine = reach.engine(part.node)
        with archive.writer(part.key) as file:
            offset = 0
            while True:
                piece = engine.read_log(part.key, offset=offset, length=MAX_RANGE)
                file.write(piece.data)
                offset += len(piece.data)
                if not piece.data or offset >= piece.size:
                    break
    except NodeError as error:
        nodes.missed(node=part.node, error=error, now=now)
        return False
    except OSError as error:
        warn("the log of %s could not be kept: %s", part.key, error)
        return False
    Allocation.objects.filter(pk=part.pk).update(log_kept=True, log_bytes=offset)
    live.publish(f"log-{part.attempt.job_id}")
    return True


def tidy(*, node_id: int, now: datetime) -> int:
    """Remove old ended runs from a node, a bounded number at a time; how many."""
    node = Node.objects.filter(pk=node_id).first()
    if node is None:
        return 0
    old = node.allocations.filter(
        phase=Allocation.Phase.ENDED, log_kept=True, tidied=False, ended_at__lt=now - KEEP_ON_NODE
    )[:200]
    keys = {part.key: part.pk for part in old}
    if not keys:
        return 0
    try:
        reach.engine(node).collect(list(keys))
    except NodeError as error:
        nodes.missed(node=node, error=error, now=now)
        return 0
    return Allocation.objects.filter(pk__in=keys.values()).update(tidied=True)
