"""Nodes that an admin keeps for somebody, or for nobody, and until when others have to be gone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobs.lifecycle import WALLTIME_GRACE_S
from jobs.scheduler.holds import Spans

LAUNCH_S = 30.0
"""Allowed for the launch: from the pass that starts a job to its beginning on its last node."""
MARGIN_S = WALLTIME_GRACE_S + LAUNCH_S
"""So long before a closure the time limits of others have to be over, as counted by a pass. On its
node a job's time begins with its launch, and at the end it still has the grace of its walltime."""


@dataclass(frozen=True, slots=True)
class Closure:
    """An admin's reservation of nodes: others may not use them meanwhile."""

    id: int
    name: str
    start: float
    end: float
    node_ids: frozenset[int]

    @property
    def limits_by(self) -> float:
        """By then the time limits of others have to be over."""
        return self.start - MARGIN_S


def closed(closures: Iterable[Closure], allowed: frozenset[int]) -> dict[int, Spans]:
    """By node id when nobody's time limit may reach into, who may use those in `allowed` only."""
    found: dict[int, Spans] = {}
    for closure in closures:
        if closure.id not in allowed:
            for node_id in closure.node_ids:
                spans = (*found.get(node_id, ()), (closure.limits_by, closure.end))
                found[node_id] = tuple(sorted(spans))
    return found
