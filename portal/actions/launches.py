"""From allocations to what their nodes need to start the runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max

from jobs import environment
from jobs.engines.contract import Launch
from jobs.environment import GpuShare, NodePart
from jobs.spec_json import from_dict
from portal.models import Allocation, Attempt, Job, Lease, Node, PreparedFor, Script
from portal.queries import checkpoints
from portal.queries.sendings import sent

READ = (
    "node", "rank", "key", "cpus", "fence", "attempt__number", "attempt__master_port",
    "attempt__job__spec", "attempt__job__script", "attempt__job__walltime_s",
    "attempt__job__submitted_at", "attempt__job__resume_from", "attempt__job__node_count",
    "attempt__job__array_id", "attempt__job__array_index", "attempt__job__owner__username",
    "attempt__job__project__name", "attempt__job__partition__name", "attempt__job__relaunch_of",
)  # fmt: skip
"""What must have been read of an allocation to make its launch."""
READ_OF_OTHERS = (
    "attempt", "rank", "cpus", "node__name", "node__transport", "node__host", "node__hostname",
    "node__sharing",
)  # fmt: skip
"""And of the others of its gang."""


@dataclass(frozen=True)
class _Held:
    """A GPU of an allocation, and how many of its shares."""

    uuid: str
    index: int
    memory_mib: int
    shares: int
    of: int


_LEASED = ("allocation_id", "gpu__uuid", "gpu__index", "gpu__memory_mib")
_leased = PreparedFor(
    lambda ids: (
        Lease.objects.filter(allocation__attempt__in=ids)
        .values_list(*_LEASED)
        .annotate(shares=Count("pk"), parts=Max("of"))
        .order_by("gpu__index")
    ),
    lambda row: (row[0], _Held(*row[1:])),
)
_tasks = PreparedFor[Any](
    lambda ids: (
        Job.objects.filter(array_id__in=ids)
        .order_by("array_index")
        .values_list("array_id", "array_index")
    )
)


def launches_of(
    parts: Sequence[Allocation], node: Node, *, now: datetime, late: Collection[str] = ()
) -> list[Launch]:
    """One launch per allocation, all on this node, in a constant number of queries.

    `late`: the keys of those that must not begin any more.
    """
    jobs = {part.attempt.job for part in parts}
    gangs = _gangs(parts, node)
    held = _held(list(gangs))
    arrays = _indices(job.array_id for job in jobs if job.array_id is not None)
    # Read apart, as the thousand jobs of an array have one.
    scripts = Script.objects.in_bulk({job.script_id for job in jobs})
    for job in jobs:
        job.script = scripts[job.script_id]
    before = _sent_before(parts)
    intervals = _intervals(parts, now)
    return [
        _launch(
            part, gangs[part.attempt_id], held, arrays.get(part.attempt.job.array_id, ()),
            before.get(part.attempt.job_id, 0), intervals.get(part.attempt.job_id),
            part.key in late, now,
        )
        for part in parts
    ]  # fmt: skip


def _sent_before(parts: Sequence[Allocation]) -> dict[int, int]:
    """By job, how many of its earlier attempts came as far as a node."""
    again = {part.attempt.job_id for part in parts if part.attempt.number > 1}
    if not again:
        return {}
    earlier = sent(Attempt.objects.filter(job__in=again, ended_at__isnull=False))
    return dict(earlier.order_by().values_list("job_id").annotate(Count("pk")))


def _intervals(parts: Sequence[Allocation], now: datetime) -> dict[int, int]:
    """By job, the seconds from one checkpoint to the next, where earlier attempts, or those of the
    job that it repeats, have shown how long writing takes."""
    nodes, repeats = {}, {}
    for part in parts:
        job = part.attempt.job
        if part.attempt.number > 1:
            nodes[job.pk] = job.node_count
        if job.relaunch_of_id is not None:
            repeats[job.pk] = job.relaunch_of_id
            nodes.setdefault(job.relaunch_of_id, job.node_count)
    found = checkpoints.intervals(nodes, now) if nodes else {}
    first = {pk: found[old] for pk, old in repeats.items() if old in found}
    return {**first, **found}


def _held(attempt_ids: list[int]) -> dict[int, list[_Held]]:
    """By allocation, in the order in which the node counts its GPUs."""
    found: dict[int, list[_Held]] = defaultdict(list)
    for allocation_id, gpu in _leased.rows(attempt_ids):
        found[allocation_id].append(gpu)
    return found


def _gangs(parts: Sequence[Allocation], node: Node) -> dict[int, list[Allocation]]:
    """Each one's attempt's allocations, in rank order; most jobs have one node and so one."""
    gangs: dict[int, list[Allocation]] = defaultdict(list)
    many = []
    for part in parts:
        part.node = node
        if part.attempt.job.node_count == 1:
            gangs[part.attempt_id].append(part)
        else:
            many.append(part.attempt_id)
    rest = Allocation.objects.filter(attempt__in=many).select_related("node")
    for part in rest.only(*READ_OF_OTHERS).order_by("rank"):
        gangs[part.attempt_id].append(part)
    return gangs


def _indices(array_ids: Iterable[int]) -> dict[int | None, tuple[int, ...]]:
    """All indices of these arrays, ascending."""
    found: dict[int | None, list[int]] = defaultdict(list)
    for array_id, index in _tasks.rows(array_ids):
        found[array_id].append(index or 0)
    return {array_id: tuple(indices) for array_id, indices in found.items()}


def checkpoint_dir(job: Job, node: Node) -> str:
    """Where the job's checkpoints go: the same path in every attempt and on every node.

    The time of submission keeps two portals' jobs apart that use one account.
    """
    return f"{node.checkpoint_root}/job-{job.pk}-{job.submitted_at:%Y%m%dT%H%M%S}"


def _launch(
    part: Allocation,
    gang: list[Allocation],
    held: dict[int, list[_Held]],
    array_indices: tuple[int, ...],
    restarts: int,
    interval_s: int | None,
    late: bool,
    now: datetime,
) -> Launch:
    """`gang` is in rank order."""
    job = part.attempt.job
    spec = from_dict(job.spec | {"script": job.script.text})
    attempt = environment.Attempt(
        job_id=job.pk,
        spec=spec,
        nodes=tuple(_node_part(p, held[p.pk]) for p in gang),
        account=part.node.login or job.owner.username,
        project=job.project.name,
        partition=job.partition.name,
        master_addr=_address(gang),
        master_port=part.attempt.master_port,
        ends_by=now + timedelta(seconds=job.walltime_s),
        checkpoint_dir=checkpoint_dir(job, part.node),
        resume_from=job.resume_from or None,
        checkpoint_interval_s=interval_s,
        restarts=restarts,
        array_id=job.array_id,
        array_index=job.array_index,
        array_indices=array_indices,
    )
    out, err = (
        environment.expand(pattern, attempt, part.rank) if pattern else None
        for pattern in (spec.stdout, spec.stderr)
    )
    warning = spec.warning
    return Launch(
        key=part.key,
        script=spec.script,
        environment=environment.of_node(attempt, part.rank),
        tasks=environment.of_tasks(attempt, part.rank),
        workdir=spec.workdir,
        walltime_s=job.walltime_s,
        checkpoint_dir=attempt.checkpoint_dir,
        stdout=out,
        stderr=err,
        warning_signal=warning.number if warning else 15,
        warning_before_s=warning.before_s if warning else 0,
        memory_mib=spec.resources.memory_mib,
        late=late,
        fence=part.fence == Allocation.Fence.UP,
    )


def _node_part(part: Allocation, gpus: list[_Held]) -> NodePart:
    return NodePart(
        name=part.node.name,
        gpu_uuids=tuple(gpu.uuid for gpu in gpus),
        gpu_indices=tuple(gpu.index for gpu in gpus),
        cpus=part.cpus,
        share=_share(part.node, gpus),
    )


def _share(node: Node, gpus: list[_Held]) -> GpuShare | None:
    """What there is to say when it is a part of one GPU."""
    parts = [gpu for gpu in gpus if gpu.shares < gpu.of]
    if not parts:
        return None
    mps = node.sharing == Node.Sharing.MPS
    return GpuShare(parts[0].shares, parts[0].of, parts[0].memory_mib, mps)


def _address(gang: list[Allocation]) -> str:
    """Where the others reach rank 0: the address we use ourselves, or this machine's name."""
    first = gang[0].node
    if first.transport != Node.Transport.LOCAL:
        return first.host
    alone = all(part.node.transport == Node.Transport.LOCAL for part in gang)
    return "127.0.0.1" if alone else first.hostname
