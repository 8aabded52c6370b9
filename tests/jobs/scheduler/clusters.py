"""Small clusters in few words, for the scheduler's tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobs.scheduler.snapshot import Gpu, Node, Pending, Running
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
