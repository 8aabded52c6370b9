"""From allocations to what their nodes need to start the runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from jobs import environment
from jobs.engines.contract import Launch
from jobs.environment import NodePart
from jobs.spec_json import from_dict
from portal.models import Allocation, Job, Lease, Node


def launches_of(parts: Sequence[Allocation], *, now: datetime) -> list[Launch]:
    """One launch per allocation, in a constant number of queries.

    `parts` come with `node` and `attempt.job` (with script and owner) loaded.
    """
    gangs: dict[int, list[Allocation]] = defaultdict(list)
    attempts = {part.attempt_id for part in parts}
    for part in (
        Allocation.objects.filter(attempt__in=attempts)
        .select_related("node")
        .order_by("attempt", "rank")
    ):
        gangs[part.attempt_id].append(part)
    held: dict[int, list[str]] = defaultdict(list)
    for allocation_id, uuid in (
        Lease.objects.filter(allocation__attempt__in=attempts)
        .order_by("gpu__index")
        .values_list("allocation_id", "gpu__uuid")
    ):
        held[allocation_id].append(uuid)
    arrays = _indices({part.attempt.job.array_id for part in parts} - {None})
    return [
        _launch(part, gangs[part.attempt_id], held, arrays.get(part.attempt.job.array_id, ()), now)
        for part in parts
    ]


def _indices(array_ids: set[int | None]) -> dict[int | None, tuple[int, ...]]:
    """All indices of these arrays, ascending."""
    found: dict[int | None, list[int]] = defaultdict(list)
    rows = Job.objects.filter(array_id__in=array_ids).order_by("array_index")
    for array_id, index in rows.values_list("array_id", "array_index"):
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
    held: dict[int, list[str]],
    array_indices: tuple[int, ...],
    now: datetime,
) -> Launch:
    """`gang` is in rank order."""
    job = part.attempt.job
    spec = from_dict(job.spec | {"script": job.script.text})
    attempt = environment.Attempt(
        job_id=job.pk,
        spec=spec,
        nodes=tuple(NodePart(p.node.name, tuple(held[p.pk]), p.cpus) for p in gang),
        account=part.node.login or job.owner.username,
        master_addr=_address(gang),
        master_port=part.attempt.master_port,
        ends_by=now + timedelta(seconds=job.walltime_s),
        checkpoint_dir=checkpoint_dir(job, part.node),
        resume_from=job.resume_from or None,
        restarts=part.attempt.number - 1,
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
    )


def _address(gang: list[Allocation]) -> str:
    """Where the others reach rank 0: the address we use ourselves, or this machine's name."""
    first = gang[0].node
    if first.transport != Node.Transport.LOCAL:
        return first.host
    alone = all(part.node.transport == Node.Transport.LOCAL for part in gang)
    return "127.0.0.1" if alone else first.hostname
