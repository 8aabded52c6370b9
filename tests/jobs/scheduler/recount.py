"""Counts anew, node by node, and knows nothing of how the scheduler counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import combinations

from jobs.scheduler.gpu_models import is_model, is_of
from jobs.scheduler.limits import Demand, Holding
from jobs.scheduler.snapshot import (
    DependencyState,
    Gpu,
    Node,
    Pending,
    Placement,
    Plan,
    Reservation,
    Running,
    Snapshot,
)
from jobs.spec import Resources
from tests.jobs.scheduler.quotas import Lab, Oracle


def usable(node: Node, asked: Resources) -> list[Gpu]:
    """GPUs of the node, free or not, that may serve the request."""
    wanted = [name for name in asked.features if name not in node.features]
    wanted += [asked.gpu_model] if asked.gpu_model else []
    return [gpu for gpu in node.gpus if all(is_model(name, gpu.model) for name in wanted)]


def able(node: Node, asked: Resources) -> bool:
    """Whether the node could hold it when empty."""
    known = (*node.features, *(gpu.model for gpu in node.gpus))
    return (
        (not asked.only_nodes or node.name in asked.only_nodes)
        and node.name not in asked.not_nodes
        and all(any(name == one or is_of(name, one) for one in known) for name in asked.features)
        and len(usable(node, asked)) >= asked.gpus_per_node
        and (not asked.shards or any(g.shards >= asked.shards for g in usable(node, asked)))
        and node.cpus >= asked.cpus
        and node.memory_mib >= (asked.memory_mib or 0)
    )


def fits(node: Node, asked: Resources) -> bool:
    """Whether a node that takes jobs and is able to hold it has that free."""
    whole = [gpu for gpu in usable(node, asked) if gpu.job_id is None and not gpu.sharers]
    parts = [
        gpu.shards - sum(shards for _, shards in gpu.sharers)
        for gpu in usable(node, asked)
        if gpu.job_id is None
    ]
    return (
        not node.exclusive
        and not (asked.exclusive and node.jobs)
        and len(whole) >= asked.gpus_per_node
        and (not asked.shards or max(parts, default=0) >= asked.shards)
        and node.cpus_free >= asked.cpus
        and (asked.memory_mib is None or node.memory_free_mib >= asked.memory_mib)
    )


def enough(nodes: Sequence[Node], asked: Resources) -> bool:
    """Whether some of these are as many as asked for, on few enough leaf switches."""
    if asked.max_switches is None or asked.nodes == 1:
        return len(nodes) >= asked.nodes
    leaves: dict[str | int, int] = {}
    for node in nodes:
        leaf = node.switches[0] if node.switches else node.id
        leaves[leaf] = leaves.get(leaf, 0) + 1
    most = min(asked.max_switches, len(leaves))
    return any(sum(some) >= asked.nodes for some in combinations(leaves.values(), most))


def is_open(node: Node, job: Pending, reservations: Iterable[Reservation], now: datetime) -> bool:
    """Whether the node is kept for nobody else while the job would run, and a minute longer."""
    until = now + timedelta(seconds=job.walltime_s + 60)
    return not any(
        node.id in kept.node_ids and kept.start < until and kept.end > now
        for kept in reservations
        if kept.id not in job.reservations
    )


def seen(snapshot: Snapshot, job: Pending) -> list[Node]:
    """The nodes of its partition that could hold its part, with the GPUs that quotas let it use;
    none if they forbid it to run at all."""
    asked = job.resources
    oracle = Oracle(Lab(snapshot.projects, snapshot.quotas, snapshot.lends), [])
    if oracle.forbids(demand(job, asked.gpus_per_node + asked.shards)):
        return []
    there = [node for node in snapshot.nodes if node.partition == job.partition]
    if asked.gpus_per_node or asked.shards or asked.exclusive:
        models = oracle.models(job.project_id, job.band)
        if asked.exclusive:
            there = [node for node in there if all(gpu.model in models for gpu in node.gpus)]
        there = [
            replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.model in models))
            for node in there
        ]
    return [node for node in there if able(node, asked)]


def fitting(snapshot: Snapshot, job: Pending, now: datetime) -> list[Node]:
    """The nodes that could take its part now."""
    return [
        node
        for node in seen(snapshot, job)
        if not node.unavailable
        and fits(node, job.resources)
        and is_open(node, job, snapshot.reservations, now)
    ]


def startable(snapshot: Snapshot, job: Pending, now: datetime) -> bool:
    """Whether there is room for it now."""
    return enough(fitting(snapshot, job, now), job.resources)


def may_count(node: Node, asked: Resources) -> list[Fraction]:
    """As how many GPUs it could count on this node now, ascending."""
    if asked.exclusive:
        return [Fraction(len(node.gpus))]
    if not asked.shards:
        return [Fraction(asked.gpus_per_node)]
    found = {
        Fraction(asked.shards, gpu.shards)
        for gpu in usable(node, asked)
        if gpu.job_id is None
        and gpu.shards - sum(shards for _, shards in gpu.sharers) >= asked.shards
    }
    return sorted(found)


def least(snapshot: Snapshot, job: Pending) -> Fraction:
    """As how many GPUs it would count at least on a cluster with nothing on it."""
    empty = without(snapshot, [run.id for run in snapshot.running])
    counts = sorted(may_count(node, job.resources)[0] for node in seen(empty, job))
    return sum(counts[: job.resources.nodes], Fraction(0))


def counted(parts: Sequence[Placement], nodes: Mapping[int, Node], asked: Resources) -> Fraction:
    """As how many GPUs it counts where it is."""
    if not asked.shards:
        return Fraction(sum(len(part.gpu_uuids) for part in parts))
    size = {gpu.uuid: gpu.shards for node in nodes.values() for gpu in node.gpus}
    return sum((Fraction(part.shards, size[part.gpu_uuids[0]]) for part in parts), Fraction(0))


def occupied(node: Node, part: Placement, job_id: int, asked: Resources) -> Node:
    """The node with one more job. Fails where it does not fit."""
    assert part.node_id == node.id
    assert not node.exclusive and not (asked.exclusive and node.jobs)
    assert job_id not in node.jobs
    cards = {gpu.uuid: gpu for gpu in node.gpus}
    assert len(set(part.gpu_uuids)) == len(part.gpu_uuids)
    for uuid in part.gpu_uuids:
        gpu = cards[uuid]
        assert gpu.job_id is None, f"{uuid} is given twice"
        if part.shards:
            taken = sum(shards for _, shards in gpu.sharers)
            assert taken + part.shards <= gpu.shards, f"{uuid} is given away more than once"
            cards[uuid] = replace(gpu, sharers=(*gpu.sharers, (job_id, part.shards)))
        else:
            assert not gpu.sharers, f"{uuid} is shared"
            cards[uuid] = replace(gpu, job_id=job_id)
    assert node.cpus_free >= part.cpus and node.memory_free_mib >= part.memory_mib
    return replace(
        node,
        gpus=tuple(cards.values()),
        cpus_free=node.cpus_free - part.cpus,
        memory_free_mib=node.memory_free_mib - part.memory_mib,
        jobs=(*node.jobs, job_id),
        exclusive=asked.exclusive,
    )


def vacated(node: Node, gone: Mapping[int, Running]) -> Node:
    """The node without some jobs."""
    here = [gone[job_id] for job_id in node.jobs if job_id in gone]
    if not here:
        return node
    left = tuple(job_id for job_id in node.jobs if job_id not in gone)
    cards = tuple(
        replace(
            gpu,
            job_id=None if gpu.job_id in gone else gpu.job_id,
            sharers=tuple(one for one in gpu.sharers if one[0] not in gone),
        )
        for gpu in node.gpus
    )
    cpus = node.cpus_free + sum(job.cpus_per_node for job in here)
    memory = node.memory_free_mib + sum(job.memory_mib_per_node for job in here)
    return replace(
        node,
        gpus=cards,
        cpus_free=cpus if left else node.cpus,
        memory_free_mib=memory if left else node.memory_mib,
        jobs=left,
        exclusive=node.exclusive and bool(left),
    )


def without(snapshot: Snapshot, job_ids: Iterable[int]) -> Snapshot:
    """The same cluster when these running jobs are gone."""
    ids = set(job_ids)
    gone = {job.id: job for job in snapshot.running if job.id in ids}
    usage = snapshot.quota_usage
    if usage is not None:
        kept = tuple(held for held in usage.running if held.demand.job_id not in gone)
        usage = replace(usage, running=kept)
    return replace(
        snapshot,
        nodes=tuple(vacated(node, gone) for node in snapshot.nodes),
        running=tuple(job for job in snapshot.running if job.id not in gone),
        quota_usage=usage,
    )


def check_part(node: Node, part: Placement, job: Pending) -> None:
    """Exactly what was asked for, of the right kind."""
    asked = job.resources
    assert node.partition == job.partition and not node.unavailable
    assert able(node, asked)
    fitting = {gpu.uuid for gpu in usable(node, asked)}
    if asked.exclusive:
        assert not node.jobs and set(part.gpu_uuids) == {gpu.uuid for gpu in node.gpus}
        assert part.cpus == node.cpus and not part.shards
        return
    assert set(part.gpu_uuids) <= fitting
    assert len(part.gpu_uuids) == (1 if asked.shards else asked.gpus_per_node)
    assert (part.shards, part.cpus) == (asked.shards, asked.cpus)
    assert part.memory_mib == (asked.memory_mib or 0)


def check_wishes(job: Pending, now: datetime) -> None:
    """Nothing of its own keeps it back."""
    assert not job.held
    assert job.dependency in (DependencyState.NONE, DependencyState.MET)
    assert job.begin_at is None or job.begin_at <= now
    ends = now + timedelta(seconds=job.walltime_s)
    assert job.deadline_at is None or ends <= job.deadline_at


def applied(snapshot: Snapshot, decided: Plan, now: datetime) -> Snapshot:
    """The cluster after this plan's starts. Fails where they are not possible."""
    nodes = {node.id: node for node in snapshot.nodes}
    waiting = {job.id: job for job in snapshot.pending}
    begun, gpus = [], {}
    for start in decided.starts:
        job = waiting.pop(start.job_id)
        check_wishes(job, now)
        chosen = [nodes[part.node_id] for part in start.placements]
        assert len({node.id for node in chosen}) == len(chosen) == job.resources.nodes
        assert enough(chosen, job.resources)
        for part in start.placements:
            check_part(nodes[part.node_id], part, job)
            node = nodes[part.node_id]
            assert is_open(node, job, snapshot.reservations, now), "kept for others"
            nodes[part.node_id] = occupied(node, part, job.id, job.resources)
        gpus[job.id] = float(counted(start.placements, nodes, job.resources))
        begun.append(_running(job, start.placements, now, gpus[job.id]))
    usage = snapshot.quota_usage
    if usage is not None:
        jobs = [job for job in snapshot.pending if job.id in gpus]
        more = [Holding(demand(job, gpus[job.id]), now) for job in jobs]
        usage = replace(usage, running=(*usage.running, *more))
    for job_id in decided.expired:
        del waiting[job_id]
    return replace(
        snapshot,
        nodes=tuple(nodes.values()),
        pending=tuple(waiting.values()),
        running=(*snapshot.running, *begun),
        quota_usage=usage,
    )


def demand(job: Pending, gpus: float) -> Demand:
    """As quotas see it."""
    return Demand(
        job.id, job.project_id, job.user_id, job.band, gpus, job.walltime_s, job.partition,
        job.resources.gpu_model,
    )  # fmt: skip


def _running(job: Pending, parts: Sequence[Placement], now: datetime, gpus: float) -> Running:
    return Running(
        job.id,
        now + timedelta(seconds=job.walltime_s),
        tuple(part.node_id for part in parts),
        job.array_id,
        # A whole node's are told as 0: all of it is free at the end.
        0 if job.resources.exclusive else job.resources.cpus,
        0 if job.resources.exclusive else job.resources.memory_mib or 0,
        job.array_index,
        job.project_id,
        job.user_id,
        job.band,
        gpus=gpus,
        started_at=now,
        submitted_at=job.submitted_at,
        waited_s=job.waited_before_s
        + (now - (job.eligible_at or job.submitted_at)).total_seconds(),
        again=replace(job, claimed_at=None),
    )
