"""Apply what a look at a node brought back: states, logs, checkpoints, GPUs."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from django.db import DataError, transaction

from jobs.events import Cause, GpuSample, Observation, Phase, RunObserved, SystemSample
from jobs.nodes.transport import CommandFailed, NodeError
from portal import archive, hints, live, reach
from portal.actions import checkpoints, contact, leases
from portal.actions.cases import lock
from portal.actions.clock import Clock, Times
from portal.actions.settle import settle_locked
from portal.models import Allocation, Gpu, Node, update_each

Open, Fence = Allocation.Phase, Allocation.Fence
READ = ("key", "node", "phase", "started_at", "log_bytes", "fence", "attempt__job")
"""Of the allocations that are asked about."""
NO_DIRECTORY = "Its directory on the node is gone, so nobody saw how it ended."

log = logging.getLogger(__name__)


def observe(*, node_id: int, now: datetime, gpus: bool = False, system: bool = False) -> None:
    """Look at one node and write down what is new. A node that does not answer changes nothing
    about its jobs."""
    node = Node.objects.to_ask(node_id)
    if node is None:
        return
    parts = {
        part.key: part
        for part in node.allocations.filter(phase__in=(Open.LAUNCHING, Open.RUNNING))
        .order_by("pk").select_related("attempt").only(*READ)
    }  # fmt: skip
    clock = Clock(now)
    lease, fence = leases.grant(node), leases.to_fence(parts.values())
    try:
        seen = reach.engine(node).observe(
            list(parts), gpus=gpus, system=system, lease=lease, fence=fence
        )
    except NodeError as error:
        contact.missed(node=node, error=error, now=now)
        return
    # The node looked just before its answer came, however long we had to wait for it.
    now = clock.now
    kept = {run.key for run in seen.runs if run.phase is Phase.EXITED and _keep_log(run)}
    try:
        _apply(node, parts, seen, kept, now)
    except (DataError, OverflowError) as error:
        # Numbers and words that no column takes: whatever runs there is at odds with us.
        nonsense = CommandFailed(f"What the node tells cannot be written down: {error}")
        contact.missed(node=node, error=nonsense, now=now)


def _keep_log(run: RunObserved) -> bool:
    """Whether the whole log came along and lies in the archive now."""
    if run.log_tail is None:
        return False
    try:
        archive.write(run.key, run.log_tail)
    except OSError as error:
        # A full disk here must not hide how the run ended; its log waits on the node.
        log.warning("the log of %s could not be kept: %s", run.key, error)
        return False
    return True


@transaction.atomic
def _apply(
    node: Node, parts: dict[str, Allocation], seen: Observation, kept: set[str], now: datetime
) -> None:
    touched = [run for run in seen.runs if run.key in parts and _differs(parts[run.key], run)]
    times = Times(seen.at, now)
    if seen.checkpoints:
        checkpoints.note(parts, seen.checkpoints, times)
    if touched:
        jobs = lock(parts[run.key].attempt.job_id for run in touched)
        _write(parts, touched, kept, times)
        settle_locked(jobs=jobs, now=now)
    problems = (*seen.problems, *_sharing(node, seen.system)) if seen.system else None
    contact.answered(node=node, boot_id=seen.boot_id, clock=seen.clock, problems=problems, now=now)
    if seen.gpus is not None:
        _gpus(node, seen.gpus, now)
    if seen.system:
        _system(node, seen.system)


def _sharing(node: Node, system: SystemSample) -> tuple[str, ...]:
    """What an admin has to do before parts of GPUs are kept apart as set."""
    if node.sharing != Node.Sharing.MPS or system.mps:
        return ()
    return (
        "CUDA's Multi-Process Service does not run (nvidia-cuda-mps-control -d starts it): jobs "
        "share GPUs by time slices, and nothing limits the memory of each",
    )


def _differs(part: Allocation, run: RunObserved) -> bool:
    if run.phase is Phase.RUNNING:
        new = part.phase == Open.LAUNCHING or part.started_at is None
        return new or run.log_bytes != part.log_bytes or (run.fenced and part.fence != Fence.UP)
    # ABSENT means something only of a run that was known to run before this look began: a
    # launch may be on its way.
    return run.phase is Phase.EXITED or (run.phase is Phase.ABSENT and part.phase == Open.RUNNING)


def _write(
    parts: dict[str, Allocation], runs: list[RunObserved], kept: set[str], times: Times
) -> None:
    _read_why_not([parts[run.key] for run in runs if run.cause is Cause.NOT_BEGUN])
    changes = {
        parts[run.key].pk: _columns(parts[run.key], run, run.key in kept, times) for run in runs
    }
    # What ended while we looked has its last word already.
    update_each(Allocation.objects.filter(phase__in=(Open.LAUNCHING, Open.RUNNING)), changes)
    live.changed(*(f"log-{parts[run.key].attempt.job_id}" for run in runs))
    for run in runs:
        if run.phase is Phase.EXITED and run.key not in kept:
            hints.keep_logs(parts[run.key].node_id)


def _read_why_not(parts: list[Allocation]) -> None:
    """Their messages, by now: one may have been sent too late while its node was asked."""
    known = {part.pk: part for part in parts}
    for pk, why in Allocation.objects.filter(pk__in=known).values_list("pk", "message"):
        known[pk].message = why


def _columns(part: Allocation, run: RunObserved, log_kept: bool, times: Times) -> dict[str, Any]:
    # As first told: the node's clock may have been set since.
    started = part.started_at or times.ours(run.started_at)
    if run.phase is Phase.RUNNING:
        return {
            "phase": Open.RUNNING, "started_at": started, "log_bytes": run.log_bytes, "message": "",
            "fence": Fence.UP if run.fenced else part.fence,
        }  # fmt: skip
    absent = run.phase is Phase.ABSENT
    ended_at = times.ours(run.ended_at) or times.now
    if run.cause is Cause.NOT_BEGUN:
        # What was sent too late says so already.
        message = part.message or f"On {part.node.name} {run.message}."
        return {"phase": Open.VOID, "ended_at": ended_at, "cause": run.cause, "message": message}
    return {
        "phase": Open.ENDED,
        "started_at": started,
        "ended_at": max(ended_at, started) if started else ended_at,
        "cause": "lost" if absent or run.cause is None else run.cause,
        "exit_code": run.exit_code,
        "signal": run.signal,
        "message": NO_DIRECTORY if absent else run.message,
        "log_bytes": part.log_bytes if absent else run.log_bytes,
        "log_kept": log_kept,
    }


def _gpus(node: Node, samples: tuple[GpuSample, ...], now: datetime) -> None:
    known = dict(node.gpus.values_list("uuid", "pk"))
    update_each(
        Gpu.objects.all(),
        {known[sample.uuid]: _sampled(sample, now) for sample in samples if sample.uuid in known},
    )
    live.changed("nodes", f"node-{node.pk}")


def _sampled(sample: GpuSample, now: datetime) -> dict[str, Any]:
    return {
        "sampled_at": now,
        "memory_used_mib": sample.memory_used_mib,
        "utilization_pct": sample.utilization_pct,
        "temperature_c": sample.temperature_c,
        "power_w": sample.power_w,
        "processes": [
            {
                "pid": process.pid,
                "memory_mib": process.memory_mib,
                "run_key": process.run_key,
                "user": process.user,
                "command": process.command,
                "age_s": process.age_s,
            }
            for process in sample.processes
        ],
    }


def _system(node: Node, sample: SystemSample) -> None:
    Node.objects.filter(pk=node.pk).update(
        load1=sample.load1,
        memory_available_mib=sample.memory_available_mib,
        disk_total_mib=sample.disk_total_mib,
        disk_free_mib=sample.disk_free_mib,
    )
