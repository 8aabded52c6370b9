"""Whether it is our own network that fails, rather than nodes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min, Q

from portal.models import Node

AT_LEAST = 2
PART = 3
"""Of the nodes, more than one in so many."""


@dataclass(frozen=True)
class Outage:
    """So many nodes of so many do not answer, the first of them since then."""

    silent: int
    nodes: int
    since: datetime


def present() -> Outage | None:
    """The one under way: more than a third of the nodes, and more than one, are out of reach."""
    silent = Q(health=Node.Health.UNREACHABLE)
    known = Node.objects.exclude(health=Node.Health.NEW).filter(drained=False)
    found = known.aggregate(
        nodes=Count("pk"),
        silent=Count("pk", filter=silent),
        since=Min("health_since", filter=silent),
    )
    if found["silent"] < AT_LEAST or found["silent"] * PART <= found["nodes"]:
        return None
    return Outage(found["silent"], found["nodes"], found["since"])


def held() -> bool:
    """Whether no job is taken from a silent node for now."""
    return present() is not None
