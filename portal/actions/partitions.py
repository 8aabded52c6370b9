"""Partitions: made where one is missing, the default one kept where the nodes are, and what an
admin sets for the jobs of one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from portal import hints, live
from portal.actions.changes import applied
from portal.models import Event, Partition, User
from portal.queries import partitions

TERMS = (
    "max_walltime_s", "default_walltime_s", "default_band", "allowed_bands", "priority_weights",
)  # fmt: skip


@transaction.atomic
def set_terms(*, partition: Partition, actor: User | None, now: datetime, **terms: Any) -> bool:
    """Some of `TERMS`. False where nothing changes. Raises `ValidationError`, by field.

    Walltimes and bands are those of jobs to come; the weights hold for those that wait, too.
    """
    if unknown := terms.keys() - {*TERMS}:
        raise TypeError(f"no terms: {', '.join(sorted(unknown))}")
    # Not FOR UPDATE, which new jobs and nodes, that refer to partitions, would have to wait for.
    row = Partition.objects.select_for_update(no_key=True).get(pk=partition.pk)
    changes = applied(row, terms)
    row.clean()
    if changes:
        row.save(update_fields=list(terms))
        Event.objects.create(
            at=now, kind="partition set", detail=row.name, actor=actor, changes=changes
        )
        live.changed("jobs", "nodes")
        hints.schedule()
    return bool(changes)


def default_partition() -> Partition:
    """The partition of jobs that name none; made when there is none yet."""
    found = partitions.named(None)
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
