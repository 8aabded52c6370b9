"""How long nodes may go on without us: what is granted them, and when that is surely over.

A node's lease ends at a moment of its own clock. What it is granted lasts `CARREL_LEASE_S` from a
moment at which that clock was read, so it is over at the latest so long after the answer in which
the reading came. It is written down before the node hears of it: while `lease_until` stands still,
nobody has promised the node more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from jobs.engines.contract import Grant
from portal import reach
from portal.models import Allocation, Checkpoint, Node

PROLONG_PART = 10
"""It is prolonged when a tenth of it is gone: not every look is worth a write."""
LOOK_PART = 5
"""When a fifth of it is gone and nobody has looked at the node, we do so ourselves."""
MARGIN_S = 8.0
"""From the end of a lease until everything it held is gone for certain: the outer guard is 2 s
late at most, and killing takes time."""
DRIFT = 0.001
"""By which part two machines' clocks may run apart: ten times what is usual for bad quartz."""
LATEST = 1e10
"""No machine has been up for so many seconds."""

READ = ("clock_boot_id", "clock", "lease_boot_id", "lease_until")


class Term(NamedTuple):
    """The newest grant of a node, as written down."""

    boot_id: str
    until: float


def grant(node: Node) -> Grant | None:
    """What the node may be told of its lease now; None while it never told its clock."""
    boot_id, clock, known_boot, known = (
        Node.all_objects.filter(pk=node.pk).values_list(*READ).get()
    )  # fmt: skip
    if clock is None:
        return None
    until = clock + settings.LEASE_S
    if known_boot == boot_id and until - known < settings.LEASE_S / PROLONG_PART:
        return Grant(boot_id, known)
    behind = Node.all_objects.filter(pk=node.pk, clock_boot_id=boot_id)
    behind.filter(Q(lease_until__lt=until) | ~Q(lease_boot_id=boot_id)).update(
        lease_boot_id=boot_id, lease_until=until
    )
    return Grant(boot_id, until)


def first(node: Node) -> Grant | None:
    """The same for a node that has not been looked at yet: ask for its clock before. Raises
    `NodeError`."""
    seen = reach.engine(node).observe([])
    Node.all_objects.filter(pk=node.pk).update(**reading(seen.clock, seen.boot_id))
    return grant(node)


def reading(clock: float | None, boot_id: str) -> dict[str, Any]:
    """The columns of a node that its clock is noted in; none for one that makes no sense."""
    if clock is None or not 0 <= clock < LATEST:
        return {}
    return {"clock": clock, "clock_boot_id": boot_id}


def fenced() -> QuerySet[Allocation]:
    """What runs, or may run, behind a fence."""
    return Allocation.objects.filter(
        phase__in=(Allocation.Phase.LAUNCHING, Allocation.Phase.RUNNING),
        fence=Allocation.Fence.UP,
        attempt__ended_at=None,
    )


def _with_fenced() -> QuerySet[Node]:
    return Node.objects.filter(Exists(fenced().filter(node=OuterRef("pk"))))


def neglected(now: datetime) -> list[int]:
    """Nodes whose lease is running out though they answered when they were last asked."""
    since = now - timedelta(seconds=settings.LEASE_S / LOOK_PART)
    due = _with_fenced().filter(Q(seen_at=None) | Q(seen_at__lt=since))
    return list(due.exclude(health=Node.Health.UNREACHABLE).values_list("pk", flat=True))


def terms() -> dict[int, Term]:
    """Of all nodes with something behind a fence."""
    rows = _with_fenced().values_list("pk", "lease_boot_id", "lease_until")
    return {pk: Term(boot_id, until) for pk, boot_id, until in rows}


class Vigil:
    """Waits until terms are over, by this machine's own clock, which nobody sets.

    It has no memory beyond its process: a new one waits the whole time again, and nothing that
    was promised before it looked can last longer.
    """

    def __init__(self) -> None:
        self._since: dict[int, tuple[Term, float]] = {}

    def over(self, present: Mapping[int, Term], clock: float) -> dict[int, Term]:
        """Those of these terms that have stood still for as long as one lasts, with a margin."""
        self._since = {pk: self._kept(pk, term, clock) for pk, term in present.items()}
        last_s = settings.LEASE_S * (1 + DRIFT) + MARGIN_S
        return {pk: term for pk, (term, since) in self._since.items() if clock - since >= last_s}

    def _kept(self, pk: int, term: Term, clock: float) -> tuple[Term, float]:
        kept = self._since.get(pk)
        return kept if kept is not None and kept[0] == term else (term, clock)


def clock() -> float:
    """Seconds that run on through a suspend of this machine, whatever its calendar is set to."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def to_fence(parts: Iterable[Allocation]) -> list[str]:
    """The keys of those that have come to have something to go on from elsewhere."""
    later = [part for part in parts if part.fence == Allocation.Fence.LATER]
    saved = _saved(part.attempt.job_id for part in later) if later else frozenset()
    return [part.key for part in later if part.attempt.job_id in saved]


def _saved(job_ids: Iterable[int]) -> frozenset[int]:
    complete = Checkpoint.objects.filter(job_id__in=set(job_ids), complete=True)
    return frozenset(complete.order_by().values_list("job_id", flat=True).distinct())
