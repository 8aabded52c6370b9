"""Partitions: which have nodes, and where a node belongs that names none."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Q, QuerySet

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.words import span
from portal.models import Job, Node, Partition, Prepared, Quota
from portal.queries.hits import MOST, Hit, Named

PRACTICE = "practice"
"""The practice lab's own: no real node is put there."""
FIRST = "gpu"
"""The first one of real nodes, and the one of jobs while there are no nodes at all."""


_COLUMNS = [field.attname for field in Partition._meta.concrete_fields]
_all = Prepared[Any](lambda: Partition.objects.values_list(*_COLUMNS))


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
    return (named(name) or Partition()).usual_walltime_s


def named(name: str | None) -> Partition | None:
    """The one of this name, or the default one; None where there is none."""
    for row in _all.rows():
        found = Partition.from_db(DEFAULT_DB_ALIAS, _COLUMNS, row)
        if found.name == name or (not name and found.is_default):
            return found
    return None


def beyond(now: Partition, then: Partition) -> Named:
    """Jobs that wait in it and would not be taken in then, and would be now."""
    waiting = Job.objects.filter(state=State.PENDING, partition=now)
    refused = waiting.filter(_refused(then)).exclude(_refused(now)).order_by("pk")
    shown = refused.select_related("owner")[:MOST]
    return Named([Hit(job, _why(job, then)) for job in shown], refused.count())


def _refused(partition: Partition) -> Q:
    found = Q(pk__in=[])
    if partition.max_walltime_s is not None:
        found |= Q(walltime_s__gt=partition.max_walltime_s)
    if partition.allowed_bands is None:
        return found | Q(band=Band.MONITORING, owner__is_staff=False)
    return found | ~Q(band__in=partition.allowed_bands)


def _why(job: Job, partition: Partition) -> str:
    longest, allowed = partition.max_walltime_s, partition.allowed_bands
    if longest is not None and job.walltime_s > longest:
        return f"It asks for {span(job.walltime_s)}; the longest would be {span(longest)}."
    if allowed is None:
        return f"Its band is {job.band}, which would be for administrators only."
    return f"Its band is {job.band}; allowed would be {', '.join(allowed)}."


def quotas_naming(names: Collection[str]) -> list[Quota]:
    """Quotas that allow any of these by name, with their projects."""
    # SQLite finds nothing inside of JSON, and few quotas name any.
    rows = Quota.objects.filter(partitions__isnull=False).select_related("project")
    return [row for row in rows.order_by("pk") if not set(names).isdisjoint(row.partitions or ())]


def for_nodes() -> QuerySet[Partition]:
    """Those that a real node may join."""
    return Partition.objects.exclude(name=PRACTICE)


def usual_for_nodes() -> str:
    """The name of the one that a real node joins when it names none; it may be yet to be made."""
    default = for_nodes().filter(is_default=True).values_list("name", flat=True).first()
    return default or FIRST
