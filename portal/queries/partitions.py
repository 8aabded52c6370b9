"""Partitions: which have nodes, and where a node belongs that names none."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from portal.models import Node, Partition

PRACTICE = "practice"
"""The practice lab's own: no real node is put there."""
FIRST = "gpu"
"""The first one of real nodes, and the one of jobs while there are no nodes at all."""


def with_nodes() -> QuerySet[Partition]:
    """Those that have any."""
    return Partition.objects.filter(pk__in=Node.objects.values("partition"))


def with_real_nodes() -> QuerySet[Partition]:
    """Those that have nodes besides the practice lab's."""
    real = Node.objects.filter(simulated=False).values("partition")
    return Partition.objects.filter(pk__in=real).exclude(name=PRACTICE)


def for_jobs() -> QuerySet[Partition]:
    """Those that jobs may ask for, the default one first; an empty one is of no use to them."""
    able = Partition.objects.filter(Q(pk__in=with_nodes()) | Q(is_default=True))
    return able.order_by("-is_default", "name")


def usual_walltime_s(name: str | None) -> int:
    """Of jobs that ask for this partition (None: for none) and give no walltime."""
    asked = (
        Partition.objects.filter(name=name) if name else Partition.objects.filter(is_default=True)
    )
    return (asked.first() or Partition()).usual_walltime_s


def for_nodes() -> QuerySet[Partition]:
    """Those that a real node may join."""
    return Partition.objects.exclude(name=PRACTICE)


def usual_for_nodes() -> str:
    """The name of the one that a real node joins when it names none; it may be yet to be made."""
    default = for_nodes().filter(is_default=True).values_list("name", flat=True).first()
    return default or FIRST
