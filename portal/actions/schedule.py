"""One scheduling pass: snapshot, plan, leases."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Max

from jobs.engines.contract import run_key
from jobs.lifecycle import Reason, State
from jobs.scheduler.plan import plan
from jobs.scheduler.snapshot import Explanation, Placement, Start
from portal import hints, live
from portal.actions import passes
from portal.models import Allocation, Attempt, Gpu, Job, Lease
from portal.queries import snapshot

MAX_STARTS = 500
"""Starts applied in one pass; the next one follows at once."""
HELD = (Reason.HELD_USER, Reason.HELD_LAUNCH)


@transaction.atomic
def schedule(*, now: datetime, explain: bool = True) -> int:
    """Decide and write down what starts; the number of jobs that do.

    One pass runs at a time, and a pass is one transaction: killed in the middle, it has done
    nothing. `explain=False` leaves the reasons of waiting jobs as they were.
    """
    if not passes.begin():
        hints.schedule(countdown=0.2)
        return 0
    decided = plan(snapshot.take(), now)
    starts = decided.starts[:MAX_STARTS]
    jobs = Job.objects.in_bulk([*(start.job_id for start in starts), *decided.expired])
    _start_all(starts, jobs, now)
    for job_id in decided.expired:
        jobs[job_id].move(
            State.DEADLINE, now=now, reason=Reason.DEADLINE, ended_at=now,
            detail="It could no longer end before its deadline.",
        )  # fmt: skip
    if explain:
        _explain(decided.explanations)
    if len(starts) < len(decided.starts):
        hints.schedule()
    return len(starts)


def _start_all(starts: Iterable[Start], jobs: dict[int, Job], now: datetime) -> None:
    numbers = dict(
        Attempt.objects.filter(job_id__in=jobs).values_list("job_id").annotate(Max("number"))
    )
    gpu_ids = dict(
        Gpu.objects.filter(
            uuid__in=[u for start in starts for place in start.placements for u in place.gpu_uuids]
        ).values_list("uuid", "pk")
    )
    leases: list[Lease] = []
    for start in starts:
        job = jobs[start.job_id]
        if not job.move(State.CONFIGURING, now=now):
            continue
        number = numbers.get(job.pk, 0) + 1
        attempt = Attempt.objects.create(
            job=job, number=number, started_at=now,
            master_port=20_000 + (job.pk * 31 + number) % 10_000,
        )  # fmt: skip
        parts = Allocation.objects.bulk_create(
            _allocation(attempt, rank, place, job) for rank, place in enumerate(start.placements)
        )
        leases += [
            Lease(gpu_id=gpu_ids[uuid], allocation=part)
            for part, place in zip(parts, start.placements, strict=True)
            for uuid in place.gpu_uuids
        ]
    Lease.objects.bulk_create(leases)
    for node_id in {place.node_id for start in starts for place in start.placements}:
        hints.dispatch(node_id)


def _allocation(attempt: Attempt, rank: int, place: Placement, job: Job) -> Allocation:
    return Allocation(
        attempt=attempt,
        node_id=place.node_id,
        rank=rank,
        key=run_key(job.pk, attempt.number, rank, secrets.token_hex(4)),
        cpus=place.cpus,
        memory_mib=place.memory_mib,
        exclusive=bool(job.spec["resources"].get("exclusive")),
    )


def _explain(explanations: dict[int, Explanation]) -> None:
    """Write down the reasons that are new; most stay as they were from pass to pass."""
    behind = []
    for job in Job.objects.filter(state=State.PENDING).only("reason", "detail", "state"):
        found = explanations.get(job.pk)
        if found is None or (job.reason, job.detail) == (found.reason, found.detail):
            continue
        # Who held it, or what failed, was written down when it happened.
        if not (job.detail and job.reason == found.reason in HELD):
            job.reason, job.detail = found.reason, found.detail
            behind.append(job)
    # Still only what waits: who was cancelled meanwhile has its last word already.
    waiting = Job.objects.filter(state=State.PENDING)
    waiting.bulk_update(behind, ["reason", "detail"], batch_size=500)
    if behind:
        live.changed("jobs", *(f"job-{job.pk}" for job in behind))
