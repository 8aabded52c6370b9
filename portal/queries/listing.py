"""Jobs and nodes as plain values: what `--json` prints is what the pages show."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.db.models import Prefetch, QuerySet

from portal.models import Allocation, Attempt, Finding, Gpu, Job, Lease, Node
from portal.queries import findings


def jobs(rows: QuerySet[Job]) -> list[dict[str, Any]]:
    """The given jobs with where they run or last ran."""
    parts = Allocation.objects.select_related("node").prefetch_related(
        Prefetch("leases", Lease.objects.select_related("gpu").order_by("gpu__index"))
    )
    attempts = Attempt.objects.order_by("number").prefetch_related(Prefetch("allocations", parts))
    full = rows.select_related("owner", "project", "partition").prefetch_related(
        Prefetch("attempts", attempts), "checkpoints"
    )
    return [_job(row) for row in full]


def _job(row: Job) -> dict[str, Any]:
    tries = list(row.attempts.all())
    last = list(tries[-1].allocations.all()) if tries else []
    return {
        "id": row.pk,
        "label": row.label,
        "name": row.name,
        "owner": row.owner.username,
        "project": row.project.name,
        "partition": row.partition.name,
        "state": row.state,
        "reason": row.reason,
        "detail": row.detail,
        "nodes": row.node_count,
        "gpus_per_node": row.gpus_per_node,
        "walltime_s": row.walltime_s,
        "attempts": len(tries),
        "submitted_at": row.submitted_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "exit_code": row.exit_code,
        "signal": row.signal,
        "allocation": [
            {
                "node": part.node.name,
                "gpus": [gpu.uuid for gpu in part.gpus],
                "cpus": part.cpus,
                "memory_mib": part.memory_mib,
                "log_bytes": part.log_bytes,
            }
            for part in last
        ],
        "checkpoints": [
            {
                "name": found.name, "step": found.step, "size_bytes": found.size_bytes,
                "complete": found.complete, "problem": found.problem, "write_s": found.write_s,
                "path": found.path,
            }
            for found in row.checkpoints.all()
        ],
    }  # fmt: skip


def nodes() -> list[dict[str, Any]]:
    """Every node with its GPUs and who holds them."""
    held = Lease.objects.filter(released_at=None).select_related("allocation__attempt")
    gpus = Gpu.objects.filter(present=True).prefetch_related(
        Prefetch("leases", held, to_attr="held")
    )
    rows = Node.objects.select_related("partition").prefetch_related(Prefetch("gpus", gpus))
    return [_node(row) for row in findings.with_open(rows)]


def _node(row: Node) -> dict[str, Any]:
    return {
        "name": row.name,
        "partition": row.partition.name,
        "simulated": row.simulated,
        "transport": row.transport,
        "address": f"{row.login}@{row.host}:{row.port}" if row.host else "",
        "health": row.health,
        "problem": row.problem,
        "drained": row.drained,
        "drain_reason": row.drain_reason,
        "cpus": row.cpus,
        "memory_mib": row.memory_mib,
        "driver": row.driver,
        "features": row.features,
        "switches": row.switches,
        "seen_at": row.seen_at,
        "findings": [_finding(one) for one in row.open_findings],  # type: ignore[attr-defined]
        "gpus": [_gpu(gpu) for gpu in row.gpus.all()],
    }


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "gpu": found.gpu.index if found.gpu else None,
        "severity": found.severity,
        "title": found.meaning.title,
        "text": found.text,
        "since": found.since,
        "seen_at": found.seen_at,
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    held: list[Lease] = gpu.held  # type: ignore[attr-defined]
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "model": gpu.model,
        "memory_mib": gpu.memory_mib,
        "memory_used_mib": gpu.memory_used_mib,
        "utilization_pct": gpu.utilization_pct,
        "temperature_c": gpu.temperature_c,
        "power_w": gpu.power_w,
        "out_of_service": gpu.out_of_service,
        "jobs": _parts(held),
    }


def _parts(held: list[Lease]) -> list[dict[str, int]]:
    """The jobs that hold a GPU, each with how many of its parts."""
    parts = Counter((lease.allocation.attempt.job_id, lease.of) for lease in held)
    return [{"id": pk, "parts": number, "of": of} for (pk, of), number in sorted(parts.items())]
