"""A run's log, wherever it lies."""

from __future__ import annotations

from jobs.engines.contract import LogRange
from portal import archive, reach
from portal.models import Allocation

MAX_RANGE = 1024 * 1024
"""Bytes handed out at once: a huge log is read in ranges only."""


def read(*, allocation: Allocation, offset: int, length: int) -> LogRange:
    """Up to `length` bytes from `offset` (negative: from the end), from the archive or the node.

    Raises `jobs.nodes.transport.NodeError` when the log is still on a node that does not answer.
    """
    length = min(length, MAX_RANGE)
    if allocation.log_kept:
        return archive.read(allocation.key, offset=offset, length=length)
    if allocation.phase in (Allocation.Phase.PLANNED, Allocation.Phase.VOID):
        return LogRange(offset=0, data=b"", size=0)
    return reach.engine(allocation.node).read_log(allocation.key, offset=offset, length=length)
