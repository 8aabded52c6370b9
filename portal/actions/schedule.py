"""One scheduling pass: snapshot, plan, leases."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from jobs.engines.contract import run_key
from jobs.lifecycle import Reason, State
from jobs.scheduler.plan import Decision
from jobs.scheduler.snapshot import Placement, Start
from portal import hints
from portal.actions import age, passes, reasons
from portal.actions.preempt import preempt
from portal.models import (
    Allocation,
    Attempt,
    Gpu,
    Job,
    Lease,
    Move,
    Prepared,
    PreparedFor,
    insert_all,
    move_all,
)
from portal.queries import snapshot

MAX_STARTS = 500
"""Starts applied in one pass; the next one follows at once."""
READ = ("state", "spec", "eligible_at", "waited_before_s")
"""What must have been read of a job to start it."""


def schedule(*, now: datetime, explain: bool = True) -> int:
    """Decide and write down what starts; the number of jobs that do.

    `explain=False` leaves the reasons and estimates of waiting jobs as they were.
    """
    starts, decision = _pass(now)
    # Who starts is on the way by now, and nobody who writes has to wait for this.
    if decision is not None and explain:
        reasons.write(decision.explained(), now=now)
    return starts


@transaction.atomic
def _pass(now: datetime) -> tuple[int, Decision | None]:
    """How many start, and why others do not, where any wait on. One pass runs at a time, and it is
    one transaction: killed in the middle, it has done nothing."""
    if not Job.objects.filter(state=State.PENDING).exists():
        return 0, None
    if not passes.begin():
        hints.schedule(countdown=0.2)
        return 0, None
    present = snapshot.take(now)
    # The sentences that it writes down tell times as pages do, in the lab's time zone.
    decision = Decision(present, timezone.localtime(now))
    decided = decision.plan
    chosen = decided.starts[:MAX_STARTS]
    wanted = [*(start.job_id for start in chosen), *decided.expired]
    # Who was cancelled since the snapshot is left alone.
    jobs = Job.objects.filter(state=State.PENDING).only(*READ).in_bulk(wanted)
    starts = [start for start in chosen if start.job_id in jobs]
    _start_all(starts, jobs, now)
    move_all([_expired(jobs[pk], now) for pk in decided.expired if pk in jobs], now=now)
    preempt({one.job_id: one.for_id for one in decided.preempted}, policy=present.policy, now=now)
    age.grow((job.id for job in present.pending), decided.explanations, now)
    if len(decided.starts) > MAX_STARTS:
        hints.schedule()
    nobody_waits = len(present.pending) == len(starts) + len(decided.expired)
    return len(starts), None if nobody_waits else decision


_attempts = PreparedFor[Any](
    lambda ids: (
        Attempt.objects.filter(job_id__in=ids)
        .order_by()
        .values_list("job_id")
        .annotate(Max("number"))
    )
)
_gpus = Prepared(
    lambda: Gpu.objects.order_by().values_list("pk", "uuid", "shards"),
    lambda row: Gpu(pk=row[0], uuid=row[1], shards=row[2]),
)


def _start_all(starts: Iterable[Start], jobs: dict[int, Job], now: datetime) -> None:
    numbers = dict(_attempts.rows(jobs))
    leasable = {gpu.uuid: gpu for gpu in _gpus.rows()}
    placed = {start.job_id: start.placements for start in starts}
    moved = move_all([_configuring(jobs[pk], now) for pk in placed], now=now)
    attempts = Attempt.objects.bulk_create(
        _attempt(job, numbers.get(job.pk, 0) + 1, now) for job in moved
    )
    parts = [
        (_allocation(attempt, rank, place), place)
        for attempt in attempts
        for rank, place in enumerate(placed[attempt.job_id])
    ]
    Allocation.objects.bulk_create(part for part, _ in parts)
    free = _FreeShares(gpu for gpu in leasable.values() if gpu.shards)
    insert_all(
        Lease(gpu=gpu, share=share, of=len(gpu.shares), allocation=part)
        for part, place in parts
        for gpu in map(leasable.__getitem__, place.gpu_uuids)
        for share in free.take(gpu, place.shards)
    )
    for node_id in {place.node_id for _, place in parts}:
        hints.dispatch(node_id)


class _FreeShares:
    """Which shares of divided GPUs nobody has; each is given once."""

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self._left = {gpu.pk: list(gpu.shares) for gpu in gpus}
        taken = Lease.objects.filter(released_at=None, gpu__in=self._left)
        for gpu_id, share in taken.values_list("gpu_id", "share"):
            self._left[gpu_id].remove(share)

    def take(self, gpu: Gpu, number: int) -> Iterable[int]:
        """So many of a GPU's; all that it has when `number` is 0, as it is wanted whole."""
        if not number:
            return gpu.shares
        given, self._left[gpu.pk] = self._left[gpu.pk][:number], self._left[gpu.pk][number:]
        return given


def _configuring(job: Job, now: datetime) -> Move:
    # Should it come back to the queue, it is as old as it is now.
    return Move(job, State.CONFIGURING, changes=age.frozen(job, now))


def _expired(job: Job, now: datetime) -> Move:
    why = "It could no longer end before its deadline."
    return Move(job, State.DEADLINE, Reason.DEADLINE, why, changes={"ended_at": now})


def _attempt(job: Job, number: int, now: datetime) -> Attempt:
    port = 20_000 + (job.pk * 31 + number) % 10_000
    return Attempt(job=job, number=number, started_at=now, master_port=port)


def _allocation(attempt: Attempt, rank: int, place: Placement) -> Allocation:
    job = attempt.job
    return Allocation(
        attempt=attempt,
        node_id=place.node_id,
        rank=rank,
        key=run_key(job.pk, attempt.number, rank, secrets.token_hex(4)),
        cpus=place.cpus,
        memory_mib=place.memory_mib,
        exclusive=bool(job.spec.get("resources", {}).get("exclusive")),
        charged_until=attempt.started_at,
        fence=_fence(job),
    )


def _fence(job: Job) -> str:
    """Who asked for it by name goes on elsewhere at once; else who has something to go on from."""
    requeue = job.spec.get("requeue")
    if requeue is False:
        return Allocation.Fence.NEVER
    return Allocation.Fence.UP if requeue or job.resume_from else Allocation.Fence.LATER
