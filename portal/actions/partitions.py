"""Partitions: made where one is missing, and the default one kept where the nodes are."""

from __future__ import annotations

from portal.models import Partition
from portal.queries import partitions


def default_partition() -> Partition:
    """The partition of jobs that name none; made when there is none yet."""
    found = Partition.objects.filter(is_default=True).first()
    made = {"is_default": True}
    return found or Partition.objects.get_or_create(name=partitions.FIRST, defaults=made)[0]


def usual_for_nodes() -> Partition:
    """The partition of real nodes that name none; made when there is none yet."""
    return Partition.objects.get_or_create(name=partitions.usual_for_nodes())[0]


def follow_nodes() -> None:
    """Let the default partition be one with nodes, real ones before the practice lab's.

    A default one that serves stays the default. For a transaction that adds or removes a node.
    """
    # In turn: two that choose at once would choose two. Not FOR UPDATE, which the new rows of
    # nodes, that refer to these, would hold up, each waiting for the other.
    list(Partition.objects.order_by("pk").select_for_update(no_key=True))
    for able in (partitions.with_real_nodes(), partitions.with_nodes()):
        found = able.order_by("-is_default", "name").first()
        if found:
            _make_default(found)
            return
    Partition.objects.filter(name=partitions.PRACTICE).update(is_default=False)


def _make_default(chosen: Partition) -> None:
    if not chosen.is_default:
        Partition.objects.filter(is_default=True).update(is_default=False)
        Partition.objects.filter(pk=chosen.pk).update(is_default=True)
