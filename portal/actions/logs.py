"""Bring the logs of ended runs home, and tidy their nodes."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from jobs.engines.contract import Launch
from jobs.events import Cause
from jobs.nodes.transport import CommandFailed, NodeError
from portal import archive, live, reach
from portal.actions import contact
from portal.actions.observe import NO_DIRECTORY
from portal.models import Allocation, Node
from portal.queries.logs import MAX_RANGE

KEEP_ON_NODE = timedelta(days=1)
"""How long an ended run's directory stays on its node after its log was brought here."""
FETCHED_WITHIN = timedelta(days=30)
"""How long after its end a log is still asked for."""
AT_ONCE = 50
LARGEST = Launch.log_cap_bytes + MAX_RANGE
"""Bytes of a log that are kept here: all that a shepherd lets through, and its own words. Yet
the file is the account's: a job may have put anything in its place."""
CUT = b"\n[carrel] only the first %d bytes are kept, of %d on the node\n"

warn = logging.getLogger(__name__).warning


def homeless(now: datetime) -> QuerySet[Allocation]:
    """Ended runs whose log is still on a node that can be asked for it, the latest first."""
    return (
        Allocation.objects.filter(
            phase=Allocation.Phase.ENDED, log_kept=False, node__health=Node.Health.UP,
            node__removed_at=None, ended_at__gt=now - FETCHED_WITHIN,
        )
        # Of a machine that was declared off, and of a directory that is gone, there is none.
        .exclude(cause=Cause.LOST, stop_wanted_at__isnull=False)
        .exclude(message=NO_DIRECTORY)
        .order_by("-ended_at", "-pk")
    )  # fmt: skip


def keep(*, node_id: int, now: datetime) -> None:
    """Copy the logs of a node's ended runs into the archive, one after the other."""
    waiting = homeless(now).filter(node_id=node_id).select_related("node", "attempt")
    for part in waiting[:AT_ONCE]:
        try:
            size = _copy(part)
        except (CommandFailed, OSError) as error:
            # Of this log alone: the node answered, and so will the next log.
            warn("the log of %s could not be kept: %s", part.key, error)
        except NodeError as error:
            contact.missed(node=part.node, error=error, now=now)
            return
        else:
            Allocation.objects.filter(pk=part.pk).update(log_kept=True, log_bytes=size)
            live.publish(f"log-{part.attempt.job_id}")


def _copy(part: Allocation) -> int:
    """Bring it here; its size. Raises `NodeError` and OSError."""
    engine = reach.engine(part.node)
    with archive.writer(part.key) as file:
        offset = size = 0
        while offset < LARGEST:
            piece = engine.read_log(part.key, offset=offset, length=MAX_RANGE)
            file.write(piece.data)
            offset += len(piece.data)
            size = piece.size
            if not piece.data or offset >= size:
                return offset
        return offset + file.write(CUT % (LARGEST, size))


def tidy(*, node_id: int, now: datetime) -> int:
    """Remove old ended runs from a node, a bounded number at a time; how many."""
    node = Node.objects.filter(pk=node_id).first()
    if node is None:
        return 0
    over = Q(phase=Allocation.Phase.ENDED, log_kept=True)
    never_began = Q(phase=Allocation.Phase.VOID, cause=Cause.NOT_BEGUN)
    old = node.allocations.filter(
        over | never_began, tidied=False, ended_at__lt=now - KEEP_ON_NODE
    )[:200]
    keys = {part.key: part.pk for part in old}
    if not keys:
        return 0
    try:
        reach.engine(node).collect(list(keys))
    except NodeError as error:
        contact.missed(node=node, error=error, now=now)
        return 0
    return Allocation.objects.filter(pk__in=keys.values()).update(tidied=True)
