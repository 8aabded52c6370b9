"""Nodes that an admin keeps for somebody, or for nobody, and until when others have to be gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

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


class NextClosed:
    """When each node is closed next, while time only goes on: however many closures overlap or
    follow each other, one number tells for how long it is open."""

    __slots__ = ("_begins", "_closed", "_until")

    def __init__(self, closed: Mapping[int, Spans]) -> None:
        self._closed = closed
        self._begins: dict[int, float] = {}
        self._until = -inf
        """Then the first of these is over."""

    def after(self, now: float) -> Mapping[int, float]:
        """By node id; where it is closed already: since when. Those that stay open are left out."""
        if now >= self._until:
            self._begins, self._until = {}, inf
            for node_id, spans in self._closed.items():
                self._look(node_id, spans, now)
        return self._begins

    def _look(self, node_id: int, spans: Spans, now: float) -> None:
        for begins, ends in spans:
            if now < ends:
                self._begins[node_id] = begins
                self._until = min(self._until, ends)
                return
