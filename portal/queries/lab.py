"""What is set for the whole lab, as its page shows it."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.paginator import Page, Paginator
from django.db.models import Count, Q, QuerySet

from portal.models import Accounting, Event, Gpu, GpuModel, Partition, SchedulingPolicy

EVENTS = 20
POLICY, SHARING, NODE = ("policy set",), ("GPU divided",), ("node set",)
PARTITION = ("partition set", "partition added", "partition removed")
PEOPLE = ("person added", "person set", "person removed", "person password set")
CHARGING, LENDING = ("charging set", "weight set"), ("lending set",)
ALL = (*POLICY, *PARTITION, *CHARGING, *SHARING, *LENDING, *PEOPLE)
"""The kinds of events that are changes of settings."""


@dataclass(frozen=True)
class Settings:
    """All that is set, and how many GPUs there are."""

    policy: SchedulingPolicy
    charging: Accounting
    models: list[GpuModel]
    partitions: QuerySet[Partition]
    gpus: int
    divided: int
    instances: int


def settings() -> Settings:
    """In a constant number of queries."""
    there = Gpu.objects.filter(present=True, node__removed_at=None).aggregate(
        gpus=Count("pk"),
        divided=Count("pk", filter=Q(shards__gt=0)),
        instances=Count("pk", filter=Q(mig_mode=True)),
    )
    present = Q(nodes__removed_at=None)
    return Settings(
        policy=SchedulingPolicy.current(),
        charging=Accounting.current(),
        models=list(GpuModel.objects.all()),
        partitions=Partition.objects.annotate(node_count=Count("nodes", filter=present)),
        **there,
    )


def changes(number: str, kinds: tuple[str, ...] = ALL, **only: object) -> Page[Event]:
    """Who changed what of these kinds, the latest first. Those of a project are on its page."""
    rows = Event.objects.filter(kind__in=kinds, project=None, **only)
    return Paginator(rows.select_related("actor").order_by("-pk"), EVENTS).get_page(number)
