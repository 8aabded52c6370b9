"""Findings as pages show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import (
    Case,
    Exists,
    IntegerField,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Value,
    When,
)

from jobs.nodes.kinds import Severity
from portal.models import Checkup, Finding, Node

_WORST_FIRST = Case(
    When(severity=Severity.SERIOUS, then=Value(0)),
    When(severity=Severity.WARNING, then=Value(1)),
    default=Value(2),
    output_field=IntegerField(),
)
COUNTED = (Severity.SERIOUS, Severity.WARNING)
"""Notes ask nobody to do anything."""
_OPEN = Q(cleared_at=None, node__removed_at=None)


@dataclass(frozen=True)
class Counts:
    """How many there are, in the lab or on a node."""

    serious: int = 0
    warnings: int = 0

    @property
    def all(self) -> int:
        return self.serious + self.warnings


def counts(found: Iterable[Finding]) -> Counts:
    """Of these."""
    severities = [one.severity for one in found]
    return Counts(severities.count(Severity.SERIOUS), severities.count(Severity.WARNING))


def in_lab() -> Counts:
    """Of all nodes."""
    rows = Finding.objects.filter(_OPEN, severity__in=COUNTED)
    return counts(rows.only("severity").order_by())


def has_open() -> Exists:
    """Of a node: somebody should look at it."""
    rows = Finding.objects.filter(node=OuterRef("pk"), cleared_at=None, severity__in=COUNTED)
    return Exists(rows)


def with_open(nodes: QuerySet[Node]) -> QuerySet[Node]:
    """Nodes with their findings that are not over, the worst first."""
    rows = Finding.objects.filter(cleared_at=None).select_related("gpu")
    worst_first = rows.order_by(_WORST_FIRST, "since", "pk")
    return nodes.prefetch_related(Prefetch("findings", worst_first, to_attr="open_findings"))


def checkup(node: Node) -> Checkup | None:
    """When it was looked at last, and what cannot be seen there."""
    return Checkup.objects.filter(node=node).first()
