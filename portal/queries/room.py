"""What a request would find: choices to make, nodes that could hold it, what is free now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone

from jobs.bands import Band
from jobs.scheduler.fit import could_hold, gpu_count
from jobs.scheduler.plan import plan
from jobs.scheduler.room import Room
from jobs.scheduler.snapshot import Estimate, Explanation, Node
from jobs.spec import JobSpec, Resources
from portal.models import Gpu, Job, Partition, Project, User
from portal.queries import partitions, rights, snapshot


@dataclass(frozen=True)
class Outlook:
    """What would become of a request submitted now, and the nodes that could hold its part."""

    jobs: int
    """One, or one per index of its array."""
    starting: int
    """Of these, those that would start at once."""
    nodes: tuple[str, ...]
    """Where the first of them would."""
    why: str
    """Why none would: the scheduler's sentence."""
    also: tuple[str, ...]
    """What else would be in its way, a sentence each."""
    expected: Estimate | None
    """When the first of them would start, if that can be foretold and is not at once."""
    could: int
    """Nodes that could hold a node's part."""
    down: int
    """Of these, those that take no jobs now."""
    gpus: int
    """On those nodes, GPUs that may serve the request."""
    free_gpus: int
    """Of these, those that are free on nodes that take jobs."""


def outlook(
    *, owner: User, project: Project, spec: JobSpec, partition: Partition, now: datetime
) -> Outlook:
    """What the scheduler would say of a request at this moment, behind all that wait already."""
    now = timezone.localtime(now)
    row = Job(
        owner=owner, project=project, partition=partition, name=spec.name,
        walltime_s=spec.walltime_s, submitted_at=now, held=spec.held, nice=spec.nice,
        band=spec.band or partition.default_band,
    )  # fmt: skip
    tasks = snapshot.asked(row, spec, now)
    present = snapshot.take(now)
    decided = plan(replace(present, pending=present.pending + tasks), now)
    first = tasks[0].id
    starts = [start for start in decided.starts if start.job_id >= first]
    why = decided.explanations.get(first)
    able = [
        node
        for node in present.nodes
        if node.partition == partition.name and could_hold(node, spec.resources)
    ]
    up = [node for node in able if not node.unavailable]
    names = {node.id: node.name for node in up}
    return Outlook(
        jobs=len(tasks),
        starting=len(starts),
        nodes=tuple(names[part.node_id] for start in starts[:1] for part in start.placements),
        why=_why(why),
        also=why.more if why else (),
        expected=decided.estimates.get(first),
        could=len(able),
        down=len(able) - len(up),
        gpus=sum(gpu_count(node, spec.resources) for node in able) if spec.resources.gpus else 0,
        free_gpus=sum(_free_gpus(node, spec.resources) for node in up),
    )


def _why(found: Explanation | None) -> str:
    if found is None:
        return "It could not end before its deadline."
    if not found.ahead:
        return found.detail
    ahead = f"{found.ahead} jobs are" if found.ahead > 1 else "1 job is"
    return f"{found.detail} {ahead} ahead of it."


def _free_gpus(node: Node, asked: Resources) -> int:
    room = Room(node)
    return (room.free & room.mask(asked)).bit_count()


def choices(*, user: User) -> tuple[list[str], list[str]]:
    """The projects this person may submit to and the partitions of use, the usual one first."""
    projects = list(rights.projects_of(user).values_list("name", flat=True))
    if user.is_staff:
        own = set(user.projects.values_list("name", flat=True))
        projects.sort(key=lambda name: (name not in own, name))
    return projects, list(partitions.for_jobs().values_list("name", flat=True))


def bands(user: User) -> tuple[list[Band], str]:
    """The bands that some partition of use allows this user, highest first, and the usual one.

    That is empty where it depends on the partition.
    """
    found = list(partitions.for_jobs())
    allowed = {band for partition in found for band in partition.bands_for(user)}
    usual = {partition.default_band for partition in found}
    return [band for band in Band if band in allowed], usual.pop() if len(usual) == 1 else ""


def offers_shards() -> bool:
    """Whether parts of a GPU can be asked for anywhere."""
    return Gpu.objects.filter(present=True, shards__gt=0).exists()


def gpu_models() -> list[str]:
    """The models the lab has, as nvidia-smi names them."""
    found = Gpu.objects.filter(present=True).order_by("model").values_list("model", flat=True)
    return list(found.distinct())
