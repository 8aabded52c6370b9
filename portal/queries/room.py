"""What a request would find: choices to make, nodes that could hold it, what is free now."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.scheduler.fit import could_hold, gpu_count
from jobs.scheduler.room import Room
from jobs.spec import Resources
from portal.models import Gpu, Partition, User
from portal.queries import rights, snapshot


@dataclass(frozen=True)
class Outlook:
    """Of a partition's nodes: how many could hold a node's part, and how many can right now."""

    could: int
    now: int
    free_gpus: int
    """Of those that may serve the request, on nodes that take jobs."""
    gpus: int
    down: int
    """Nodes that could hold it but take no jobs now."""


def outlook(*, resources: Resources, partition: str) -> Outlook:
    """How a request stands against the cluster at this moment."""
    nodes = [
        node
        for node in snapshot.nodes()
        if node.partition == partition and could_hold(node, resources)
    ]
    up = [Room(node) for node in nodes if not node.unavailable]
    return Outlook(
        could=len(nodes),
        now=sum(room.fits(resources) for room in up),
        free_gpus=sum(room.free_gpus(resources) for room in up),
        gpus=sum(gpu_count(node, resources) for node in nodes),
        down=len(nodes) - len(up),
    )


def choices(*, user: User) -> tuple[list[str], list[str]]:
    """The projects this person may submit to and the partitions, the usual one first."""
    projects = list(rights.projects_of(user).values_list("name", flat=True))
    if user.is_staff:
        own = set(user.projects.values_list("name", flat=True))
        projects.sort(key=lambda name: (name not in own, name))
    partitions = Partition.objects.order_by("-is_default", "name").values_list("name", flat=True)
    return projects, list(partitions)


def gpu_models() -> list[str]:
    """The models the lab has, as nvidia-smi names them."""
    found = Gpu.objects.filter(present=True).order_by("model").values_list("model", flat=True)
    return list(found.distinct())
