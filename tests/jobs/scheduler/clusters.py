"""Small clusters in few words, and random ones, for the scheduler's tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from jobs.scheduler.snapshot import (
    DependencyState,
    Gpu,
    Node,
    Pending,
    Running,
    Snapshot,
)
from jobs.spec import Resources

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
A100 = "NVIDIA A100-SXM4-80GB"
H100 = "NVIDIA H100 80GB HBM3"


def node(
    node_id: int,
    gpus: int = 4,
    used: dict[int, int] | None = None,
    model: str = A100,
    **more: object,
) -> Node:
    """`n<node_id>`; `used` tells how many of its GPUs each job holds."""
    holders = [job for job, number in (used or {}).items() for _ in range(number)]
    cards = tuple(
        Gpu(
            f"GPU-{node_id}-{index}",
            index,
            model,
            81_920,
            holders[index] if index < len(holders) else None,
        )
        for index in range(gpus)
    )
    values: dict[str, object] = {
        "name": f"n{node_id}",
        "partition": "gpu",
        "cpus": 32,
        "memory_mib": 131_072,
        "gpus": cards,
        "jobs": tuple(used or {}),
    }
    values |= more
    values.setdefault("cpus_free", values["cpus"])
    values.setdefault("memory_free_mib", values["memory_mib"])
    return Node(id=node_id, **values)  # type: ignore[arg-type]


def pending(job_id: int, gpus: int = 0, nodes: int = 1, **more: object) -> Pending:
    """Submitted in the order of the numbers; what `Resources` knows goes there."""
    asked = {name: more.pop(name) for name in list(more) if name in Resources.__annotations__}
    values: dict[str, object] = {
        "submitted_at": NOW - timedelta(days=1) + timedelta(seconds=job_id),
        "resources": Resources(nodes=nodes, gpus_per_node=gpus, **asked),  # type: ignore[arg-type]
        "walltime_s": 3600,
        "partition": "gpu",
    }
    return Pending(id=job_id, **(values | more))  # type: ignore[arg-type]


def running(job_id: int, minutes: int, *node_ids: int, **more: int) -> Running:
    """Ends that many minutes from now at the latest."""
    return Running(job_id, NOW + timedelta(minutes=minutes), node_ids, **more)  # type: ignore[arg-type]


def resources(most_nodes: int = 3, most_gpus: int = 5) -> st.SearchStrategy[Resources]:
    return st.builds(
        Resources,
        nodes=st.integers(1, most_nodes),
        gpus_per_node=st.integers(0, most_gpus),
        gpu_model=st.sampled_from([None, None, "a100", "h100"]),
        tasks_per_node=st.integers(1, 3),
        cpus_per_task=st.sampled_from([1, 2, 8]),
        memory_mib=st.sampled_from([None, 1024, 8192, 70_000]),
        exclusive=st.sampled_from([False, False, True]),
        features=st.sampled_from([(), (), ("nvlink",), ("a100",)]),
        not_nodes=st.sampled_from([(), (), ("n1",)]),
    )


@st.composite
def snapshots(draw: st.DrawFn, busy: bool = False) -> Snapshot:
    """A consistent cluster: what running jobs hold is what is missing on the nodes.

    `busy`: one partition, all of it available, much of it taken, and nobody waits.
    """
    nodes = [
        node(
            number,
            gpus=draw(st.integers(0, 4)),
            model=draw(st.sampled_from([A100, A100, H100])),
            partition="gpu" if busy else draw(st.sampled_from(["gpu", "gpu", "cpu"])),
            cpus=draw(st.sampled_from([4, 16])),
            memory_mib=draw(st.sampled_from([8192, 65_536])),
            features=draw(st.sampled_from([(), ("nvlink",)])),
            unavailable="" if busy else draw(st.sampled_from(["", "", "", "draining: fan noise"])),
        )
        for number in range(1, draw(st.integers(1, 3 if busy else 5)) + 1)
    ]
    active = []
    for job_id in range(101, 101 + draw(st.integers(3, 9) if busy else st.integers(0, 6))):
        at = draw(st.integers(0, len(nodes) - 1))
        nodes[at], job = _occupy(draw, nodes[at], job_id)
        active.append(job)
    most = 0 if busy else 9
    waiting = draw(st.lists(_pending(), max_size=most, unique_by=lambda job: job.id))
    return Snapshot(tuple(nodes), tuple(waiting), tuple(active))


def _occupy(draw: st.DrawFn, at: Node, job_id: int) -> tuple[Node, Running]:
    cpus = draw(st.integers(0, max(0, at.cpus_free)))
    memory = draw(st.integers(0, max(0, at.memory_free_mib)))
    wanted = draw(st.integers(0, 3))
    free = [gpu for gpu in at.gpus if gpu.job_id is None][:wanted]
    gpus = tuple(replace(gpu, job_id=job_id) if gpu in free else gpu for gpu in at.gpus)
    ends_by = NOW + timedelta(minutes=draw(st.integers(-5, 500)))
    used = replace(
        at,
        gpus=gpus,
        cpus_free=at.cpus_free - cpus,
        memory_free_mib=at.memory_free_mib - memory,
        jobs=(*at.jobs, job_id),
    )
    array = draw(st.sampled_from([None, 7]))
    return used, Running(job_id, ends_by, (at.id,), array, cpus, memory)


def _pending() -> st.SearchStrategy[Pending]:
    def minutes(low: int, high: int) -> st.SearchStrategy[datetime | None]:
        return st.none() | st.integers(low, high).map(lambda m: NOW + timedelta(minutes=m))

    return st.builds(
        Pending,
        id=st.integers(1, 60),
        submitted_at=st.integers(0, 3).map(lambda hours: NOW - timedelta(hours=hours)),
        resources=resources(),
        walltime_s=st.sampled_from([60, 3600]),
        partition=st.sampled_from(["gpu", "gpu", "gpu", "cpu", "none"]),
        held=st.sampled_from([False, False, False, True]),
        begin_at=minutes(-60, 60),
        deadline_at=minutes(0, 240),
        dependency=st.sampled_from([DependencyState.NONE] * 3 + list(DependencyState)),
        waits_for=st.sampled_from([(), (101,), (101, 3)]),
        array_id=st.sampled_from([None, 7]),
        array_limit=st.sampled_from([None, 1, 2]),
    )


def ended(snapshot: Snapshot, job_ids: Iterable[int]) -> Snapshot:
    """The same cluster when these jobs are gone."""
    gone = set(job_ids)
    back = [job for job in snapshot.running if job.id in gone]
    nodes = tuple(
        replace(
            at,
            gpus=tuple(replace(g, job_id=None) if g.job_id in gone else g for g in at.gpus),
            cpus_free=at.cpus_free + sum(j.cpus_per_node for j in back if at.id in j.node_ids),
            memory_free_mib=at.memory_free_mib
            + sum(j.memory_mib_per_node for j in back if at.id in j.node_ids),
            jobs=tuple(job for job in at.jobs if job not in gone),
        )
        for at in snapshot.nodes
    )
    left = tuple(job for job in snapshot.running if job.id not in gone)
    return Snapshot(nodes, snapshot.pending, left)
