"""One scheduling pass: snapshot, plan, leases."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max, Q
from django.utils import timezone

from jobs.engines.contract import run_key
from jobs.lifecycle import Reason, State
from jobs.scheduler.plan import plan
from jobs.scheduler.snapshot import Placement, Plan, Start
from portal import hints, live
from portal.actions import age, passes
from portal.actions.preempt import preempt
from portal.models import (
    Allocation,
    Attempt,
    Gpu,
    Job,
    Lease,
    Move,
    Partition,
    move_all,
    update_each,
)
from portal.queries import snapshot

MAX_STARTS = 500
"""Starts applied in one pass; the next one follows at once."""
HELD = (Reason.HELD_USER, Reason.HELD_LAUNCH)
NO_TURN = (
    *HELD,
    Reason.BEGIN_TIME,
    Reason.DEPENDENCY,
    Reason.DEPENDENCY_NEVER,
    Reason.ARRAY_LIMIT,
    Reason.BAD_CONSTRAINTS,
)
"""Jobs that wait for something else than their turn have no place in the queue."""
ESTIMATED = ("also", "position", "starts_at", "starts_low", "starts_high")
READ = ("state", "spec", "eligible_at", "waited_before_s")
"""What must have been read of a job to start it."""
SEEN = timedelta(minutes=1)
"""An estimate that moves by less is left as it was."""
NOTED = timedelta(seconds=5)
"""How often it is written down that all that is told still holds."""


@transaction.atomic
def schedule(*, now: datetime, explain: bool = True) -> int:
    """Decide and write down what starts; the number of jobs that do.

    One pass runs at a time, and a pass is one transaction: killed in the middle, it has done
    nothing. `explain=False` leaves the reasons and estimates of waiting jobs as they were.
    """
    if not passes.begin():
        hints.schedule(countdown=0.2)
        return 0
    # The sentences that it writes down tell times as pages do, in the lab's time zone.
    now = timezone.localtime(now)
    present = snapshot.take(now)
    decided = plan(present, now, explained=explain)
    chosen = decided.starts[:MAX_STARTS]
    wanted = [*(start.job_id for start in chosen), *decided.expired]
    # Who was cancelled since the snapshot is left alone.
    jobs = Job.objects.filter(state=State.PENDING).only(*READ).in_bulk(wanted)
    starts = [start for start in chosen if start.job_id in jobs]
    _start_all(starts, jobs, now)
    move_all([_expired(jobs[pk], now) for pk in decided.expired if pk in jobs], now=now)
    preempt({one.job_id: one.for_id for one in decided.preempted}, policy=present.policy, now=now)
    age.grow((job.id for job in present.pending), decided.explanations, now)
    if explain:
        _explain(decided)
        _note(now)
    if len(decided.starts) > MAX_STARTS:
        hints.schedule()
    return len(starts)


def _start_all(starts: Iterable[Start], jobs: dict[int, Job], now: datetime) -> None:
    numbers = dict(
        Attempt.objects.filter(job_id__in=jobs).values_list("job_id").annotate(Max("number"))
    )
    gpus = Gpu.objects.only("uuid", "shards").filter(
        uuid__in=[u for start in starts for place in start.placements for u in place.gpu_uuids]
    )
    leasable = {gpu.uuid: gpu for gpu in gpus}
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
    Lease.objects.bulk_create(
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
        exclusive=bool(job.spec["resources"].get("exclusive")),
        charged_until=attempt.started_at,
    )


def _explain(decided: Plan) -> None:
    """Write down what is new of the reasons and estimates; most stay from pass to pass."""
    waiting = Job.objects.filter(state=State.PENDING)
    told: dict[int, dict[str, object]] = {}
    # In the order in which everybody locks jobs.
    for row in waiting.only("reason", "detail", *ESTIMATED).order_by("pk"):
        new = _told(row, decided)
        if new:
            told[row.pk] = new
    if not told:
        return
    # Still only what waits: who was cancelled meanwhile has its last word already.
    update_each(waiting, told)
    live.changed("jobs", *(f"job-{pk}" for pk in told))


def _told(row: Job, decided: Plan) -> dict[str, object]:
    """A waiting job's columns as decided; empty where nothing differs that anybody would see."""
    why, estimate = decided.explanations.get(row.pk), decided.estimates.get(row.pk)
    new: dict[str, object] = {}
    # Who held it, or what failed, was written down when it happened.
    if why is not None and not (row.detail and row.reason == why.reason in HELD):
        new |= {"reason": why.reason, "detail": why.detail}
    also = list(why.more) if why else []
    in_turn = why is not None and estimate is not None and why.reason not in NO_TURN
    position = why.ahead + 1 if why and in_turn else None
    moments = (estimate.at, estimate.early, estimate.late) if estimate else (None, None, None)
    new |= dict(zip(ESTIMATED, (also, position, *moments), strict=True))
    # All of them or none, so that rows are alike and few statements write them.
    return new if any(_differs(getattr(row, name), value) for name, value in new.items()) else {}


def _note(now: datetime) -> None:
    """What is told of waiting jobs is as of now; most of it did not change and is not written."""
    waited_in = Job.objects.filter(state=State.PENDING).values("partition")
    stale = Q(foretold_at=None) | Q(foretold_at__lt=now - NOTED)
    Partition.objects.filter(stale, pk__in=waited_in).update(foretold_at=now)


def _differs(old: object, new: object) -> bool:
    """Estimates move a little with every pass; what nobody would see is not written."""
    if isinstance(old, datetime) and isinstance(new, datetime):
        return abs(new - old) >= SEEN
    return old != new
