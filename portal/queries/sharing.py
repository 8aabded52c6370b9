"""How the GPUs of nodes are divided, and who holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Q

from jobs.scheduler.words import jobs_named, memory
from portal.models import Gpu, Job, Node
from portal.queries import gpus

PAGE_SIZE = 50


@dataclass(frozen=True)
class Card:
    """A GPU, or a MIG instance of one, and the jobs that hold it or a part of it."""

    gpu: Gpu
    jobs: tuple[Job, ...]

    @property
    def words(self) -> str:
        """`NVIDIA A100-SXM4-80GB, 80 GiB. In use by job 17: it stays as it is.`"""
        what = f"{self.gpu.model}, {memory(self.gpu.memory_mib)}."
        if not self.jobs:
            return f"{what} Free."
        return (
            f"{what} In use by {jobs_named([job.label for job in self.jobs])}: it stays as it is."
        )


def cards(node: Node) -> list[Card]:
    """By index, in a constant number of queries."""
    return [_card(gpu) for gpu in gpus.with_leases().filter(node=node)]


def page(number: str) -> Page[Any]:
    """Nodes with GPUs, by name; each with how many it has, are divided, and are MIG instances."""
    present = Q(gpus__present=True)
    rows = Node.objects.select_related("partition").annotate(
        gpu_count=Count("gpus", filter=present),
        divided=Count("gpus", filter=present & Q(gpus__shards__gt=0)),
        instances=Count("gpus", filter=present & Q(gpus__mig_mode=True)),
    )
    return Paginator(rows.filter(gpu_count__gt=0).order_by("name"), PAGE_SIZE).get_page(number)


def _card(gpu: Gpu) -> Card:
    leases = gpu.open_leases  # type: ignore[attr-defined]
    held = {lease.allocation.attempt.job_id: lease.allocation.attempt.job for lease in leases}
    return Card(gpu, tuple(held[pk] for pk in sorted(held)))
