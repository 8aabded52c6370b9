"""Bring a job into line with what its allocations came to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from jobs.events import Cause
from jobs.lifecycle import Reason, State
from jobs.outcome import RunEnd, verdict
from portal import hints
from portal.models import Allocation, Attempt, Job, Lease, move_all

Phase = Allocation.Phase
READ = (
    "attempt_id", "rank", "phase", "started_at", "ended_at", "cause", "exit_code", "signal",
    "message",
)  # fmt: skip
MAX_LAUNCH_TRIES = 3
"""Attempts that never started anything before the job is held for somebody to look."""


def settle(*, attempt: Attempt, now: datetime) -> None:
    """`settle_all` for one."""
    settle_all(attempts=[attempt], now=now)


@transaction.atomic
def settle_all(*, attempts: Iterable[Attempt], now: datetime) -> None:
    """Read these attempts' allocations and move their jobs accordingly; call after any change.

    May be repeated at any time: it only acts on what is still behind. A node tells of many jobs
    at once, so the number of queries does not grow with those that only begin to run.
    """
    wanted = {attempt.pk for attempt in attempts}
    jobs = (
        Job.objects.select_for_update(of=("self",))
        .select_related("cancelled_by")
        .defer("spec")
        .filter(attempts__in=wanted)
        .order_by("pk")
    )
    active = {job.pk: job for job in jobs if job.active}
    # Whoever comes late with an earlier attempt must not touch what the present one holds.
    still = Attempt.objects.filter(pk__in=wanted, ended_at=None, job__in=active)
    parts: dict[int, list[Allocation]] = defaultdict(list)
    rows = Allocation.objects.filter(attempt__in=wanted).select_related("node")
    for part in rows.only(*READ, "node__name").order_by("rank"):
        parts[part.attempt_id].append(part)
    begun: dict[datetime, list[Job]] = defaultdict(list)
    for attempt in still:
        job = active[attempt.job_id]
        if _has_begun(job, parts[attempt.pk]):
            begun[_started(parts[attempt.pk]) or now].append(job)
        else:
            _settle(job, attempt, parts[attempt.pk], now)
    for started_at, together in begun.items():
        move_all(together, State.RUNNING, now=now, started_at=started_at)


def _has_begun(job: Job, parts: list[Allocation]) -> bool:
    """Every part of it runs or has ended well, and none of it knew so far."""
    return (
        job.state == State.CONFIGURING
        and not job.cancelled_at
        and any(part.phase in Allocation.OPEN for part in parts)
        and all(part.phase in (Phase.RUNNING, Phase.ENDED) for part in parts)
        and not any(_broken(part) for part in parts)
    )


def _started(parts: list[Allocation]) -> datetime | None:
    return min((part.started_at for part in parts if part.started_at), default=None)


def _settle(job: Job, attempt: Attempt, parts: list[Allocation], now: datetime) -> None:
    if not any(part.phase in Allocation.OPEN for part in parts):
        _close(job, attempt, parts, now)
    elif job.cancelled_at or any(_broken(part) for part in parts):
        _wind_down(job, attempt, now)


def _counts(part: Allocation) -> bool:
    """Whether it says anything about the job, and is not only what we stopped or never sent."""
    return part.phase == Phase.ENDED and part.cause != Cause.STOPPED


def _broken(part: Allocation) -> bool:
    return part.phase == Phase.VOID or (part.phase == Phase.ENDED and not _end(part).well)


def _wind_down(job: Job, attempt: Attempt, now: datetime) -> None:
    """Stop what still runs. Nothing is given back before every process is known to be gone."""
    # The database says what was sent by now: a worker may just have claimed a part.
    attempt.allocations.filter(phase=Phase.PLANNED).update(phase=Phase.VOID, ended_at=now)
    sent = attempt.allocations.filter(phase__in=(Phase.LAUNCHING, Phase.RUNNING))
    sent.filter(stop_wanted_at=None).update(stop_wanted_at=now)
    left = list(sent.values_list("node_id", flat=True))
    for node_id in left:
        hints.dispatch(node_id)
    if job.state != State.COMPLETING:
        cancelled = bool(job.cancelled_at)
        void = attempt.allocations.filter(phase=Phase.VOID).exclude(message="").first()
        why = void.message if void else "A part of it ended badly."
        job.move(
            State.COMPLETING,
            now=now,
            reason=Reason.CANCELLED_BY_USER if cancelled else Reason.CLEANING,
            detail=f"Cancelled by {job.cancelled_by}; its processes are being ended."
            if cancelled
            else f"{why} Its other parts are being ended.",
        )
    if not left:
        settle(attempt=attempt, now=now)


def _close(job: Job, attempt: Attempt, parts: list[Allocation], now: datetime) -> None:
    ended = [part for part in parts if part.phase == Phase.ENDED]
    Lease.objects.filter(allocation__attempt=attempt, released_at=None).update(released_at=now)
    hints.schedule()
    # What has once run as a whole never runs again, whoever stopped it.
    never_ran = job.started_at is None and not any(_counts(part) for part in parts)
    if never_ran and not job.cancelled_at:
        _give_back(job, attempt, parts, now)
        return
    found = verdict(
        [_end(part) for part in ended],
        cancelled_by=str(job.cancelled_by) if job.cancelled_at else None,
        unstarted=[part.message for part in parts if part.phase == Phase.VOID],
    )
    ended_at = max((part.ended_at for part in ended if part.ended_at), default=now)
    _end_attempt(attempt, found.state, found.detail, ended_at)
    first = _started(ended)
    started = {"started_at": first} if first else {}
    job.move(
        found.state, now=now, reason=found.reason, detail=found.detail, actor=job.cancelled_by,
        exit_code=found.exit_code, signal=found.signal, ended_at=ended_at, **started,
    )  # fmt: skip


def _give_back(job: Job, attempt: Attempt, parts: list[Allocation], now: datetime) -> None:
    """It could not start on all of its nodes: the job waits again, or is held after several."""
    why = next((part.message for part in parts if part.message), "it could not be started")
    _end_attempt(attempt, State.PENDING, why, now)
    held = attempt.number % MAX_LAUNCH_TRIES == 0
    job.move(
        State.PENDING,
        now=now,
        reason=Reason.HELD_LAUNCH if held else Reason.RESOURCES,
        detail=f"{attempt.number} attempts could not be started; the last: {why} "
        "Release it once the node is well."
        if held
        else why,
        held=held or job.held,
    )


def _end_attempt(attempt: Attempt, outcome: State, detail: str, at: datetime) -> None:
    Attempt.objects.filter(pk=attempt.pk, ended_at=None).update(
        outcome=outcome, detail=detail, ended_at=at
    )


def _end(part: Allocation) -> RunEnd:
    return RunEnd(
        node=part.node.name,
        ended_at=part.ended_at.timestamp() if part.ended_at else 0.0,
        cause=Cause(part.cause),
        exit_code=part.exit_code,
        signal=part.signal,
        message=part.message,
    )
