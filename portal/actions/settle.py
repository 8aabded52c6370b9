"""Bring a job into line with what its allocations came to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest

from jobs.lifecycle import Reason, State
from jobs.outcome import verdict
from jobs.scheduler.words import span
from portal import hints, live
from portal.actions.cases import Case, Phase, cases_of, lock
from portal.actions.requeue import End, requeued
from portal.models import (
    Allocation,
    Attempt,
    Job,
    Lease,
    Move,
    move_all,
    update_each,
)
from portal.queries.sendings import DELAYED, sent

MAX_LAUNCH_TRIES = 3
"""Attempts that never started anything before the job is held for somebody to look."""


def settle(*, attempt: Attempt, now: datetime) -> None:
    """`settle_all` for one."""
    settle_all(attempts=[attempt], now=now)


def settle_all(*, attempts: Iterable[Attempt], now: datetime) -> None:
    """Read these attempts' allocations and move their jobs accordingly; call after any change.

    May be repeated at any time: it only acts on what is still behind. A node tells of many jobs
    at once, so the number of queries does not grow with theirs.
    """
    with transaction.atomic(savepoint=False):
        settle_locked(jobs=lock(attempt.job_id for attempt in attempts), now=now)


def settle_locked(*, jobs: Iterable[Job], now: datetime) -> None:
    """`settle_all` for whoever has had to `lock` the jobs before."""
    over, broken, begun = [], [], []
    for case in cases_of(jobs):
        if case.over:
            over.append(case)
        elif case.job.cancelled_at or case.broken:
            broken.append(case)
        elif case.has_begun:
            begun.append(case)
    _close(over, now)
    _wind_down(broken, now)
    move_all([_running(case, now) for case in begun], now=now)


def _running(case: Case, now: datetime) -> Move:
    return Move(case.job, State.RUNNING, changes={"started_at": case.started_at or now})


def _wind_down(cases: list[Case], now: datetime) -> None:
    """Stop what still runs. Nothing is given back before every process is known to be gone."""
    if not cases:
        return
    # The database says what was sent by now: a worker may just have claimed a part.
    parts = Allocation.objects.filter(attempt__in=[case.attempt_id for case in cases])
    parts.filter(phase=Phase.PLANNED).update(phase=Phase.VOID, ended_at=now)
    sent = parts.filter(phase__in=(Phase.LAUNCHING, Phase.RUNNING))
    if cancelled := [case for case in cases if case.makes_room and case.job.cancelled_at]:
        _cancel_instead(cancelled)
    sent.filter(stop_wanted_at=None).update(stop_wanted_at=now)
    left = list(sent.values_list("attempt_id", "node_id"))
    for node_id in {node_id for _, node_id in left}:
        hints.dispatch(node_id)
    move_all([_completing(case) for case in cases if case.job.state != State.COMPLETING], now=now)
    running = {attempt_id for attempt_id, _ in left}
    if over := [case.job for case in cases if case.attempt_id not in running]:
        settle_locked(jobs=over, now=now)


def _cancel_instead(cases: list[Case]) -> None:
    """These make room for others already: they have no more time for it than whom a person
    cancels, and go nowhere else."""
    parts = Allocation.objects.filter(attempt__in=[case.attempt_id for case in cases])
    leaving = parts.filter(phase__in=Allocation.OPEN, stop_grace_s__isnull=False)
    if not leaving.update(stop_signal=None, stop_grace_s=None, stop_sent_at=None):
        return
    changes = {
        move.job.pk: {"reason": move.reason, "detail": move.detail}
        for move in map(_completing, cases)
    }
    update_each(Job.objects.filter(state=State.COMPLETING), changes)
    live.changed("jobs", *(f"job-{pk}" for pk in changes))


def _completing(case: Case) -> Move:
    if case.job.cancelled_at:
        detail = f"Cancelled by {case.job.cancelled_by}; its processes are being ended."
        return Move(case.job, State.COMPLETING, Reason.CANCELLED_BY_USER, detail)
    void = (part.message for part in case.parts if part.phase == Phase.VOID and part.message)
    why = next(void, "A part of it ended badly.")
    detail = f"{why} Its other parts are being ended."
    return Move(case.job, State.COMPLETING, Reason.CLEANING, detail)


def _close(cases: list[Case], now: datetime) -> None:
    if not cases:
        return
    failures = _launch_failures(cases)
    ends = {case.attempt_id: _end(case, failures, now) for case in cases}
    ends |= requeued(ends)
    parts = [part.pk for case in cases for part in case.parts]
    Lease.objects.filter(allocation__in=parts, released_at=None).update(released_at=now)
    held = Allocation.objects.filter(pk__in=parts, released_at=None)
    # Who was kept waiting by us alone has used nothing.
    unsent = [case.attempt_id for case in cases if case.unsent]
    held.filter(attempt__in=unsent).update(released_at=F("charged_until"))
    # Somebody who looked at the clock after us may have charged it already.
    held.update(released_at=Greatest(now, F("charged_until")))
    hints.schedule()
    update_each(
        Attempt.objects.filter(ended_at=None), {pk: end.attempt for pk, end in ends.items()}
    )
    move_all([end.move for end in ends.values()], now=now)


def _launch_failures(cases: list[Case]) -> dict[int, int]:
    """By job, how many attempts never started anything since it last ran."""
    jobs = [case.job.pk for case in cases if case.never_ran]
    failures: dict[int, int] = defaultdict(int)
    if jobs:
        # Of what only came too late no node was the cause.
        ended = Attempt.objects.filter(job__in=jobs, ended_at__isnull=False)
        earlier = sent(ended.exclude(detail__startswith=DELAYED))
        for job_id, outcome in earlier.order_by("number").values_list("job_id", "outcome"):
            failures[job_id] = failures[job_id] + 1 if outcome == State.PENDING else 0
    return failures


def _end(case: Case, failures: dict[int, int], now: datetime) -> End:
    job, parts = case.job, case.parts
    if case.never_ran and not job.cancelled_at:
        if case.unsent or case.delayed:
            return _put_back(case, now)
        return _give_back(case, failures.get(job.pk, 0) + 1, now)
    ended = [part for part in parts if part.phase == Phase.ENDED]
    ended_at = max((part.ended_at for part in ended if part.ended_at), default=now)
    found = verdict(
        [part.end for part in ended],
        cancelled_by=str(job.cancelled_by) if job.cancelled_at else None,
        preempted_by=_preempted_by(case, ended_at) if case.makes_room else "",
        unstarted=[part.message for part in parts if part.phase == Phase.VOID],
    )
    changes = {
        "exit_code": found.exit_code,
        "signal": found.signal,
        "ended_at": ended_at,
        "started_at": case.started_at or job.started_at,
    }
    move = Move(job, found.state, found.reason, found.detail, job.cancelled_by, changes)
    return End(_attempt(found.state, found.detail, ended_at), move)


def _preempted_by(case: Case, ended_at: datetime) -> str:
    """`job 17 (production) after 3 h`."""
    began = case.started_at or case.job.started_at or ended_at
    return f"{case.parts[0].attempt__preempted_by} after {span((ended_at - began).total_seconds())}"


def _put_back(case: Case, now: datetime) -> End:
    """Nobody has tried to start it, or only too late: the job waits as if no pass had chosen it."""
    since = case.parts[0].attempt__started_at
    why = case.why_unstarted
    move = Move(case.job, State.PENDING, Reason.RESOURCES, why, changes={"eligible_at": since})
    return End(_attempt(State.PENDING, why, now), move)


def _give_back(case: Case, number: int, now: datetime) -> End:
    """It could not start on all of its nodes: the job waits again, or is held after several.

    This is the attempt of this `number` in a row of which nothing came.
    """
    job = case.job
    why = case.why_unstarted
    held = number % MAX_LAUNCH_TRIES == 0
    reason, detail = Reason.RESOURCES, why
    if held:
        reason = Reason.HELD_LAUNCH
        detail = f"{number} attempts could not be started; the last: {why} "
        detail += "Release it once the node is well."
    move = Move(job, State.PENDING, reason, detail, changes={"held": held or job.held})
    return End(_attempt(State.PENDING, why, now), move)


def _attempt(outcome: State, detail: str, ended_at: datetime) -> dict[str, Any]:
    return {"outcome": outcome, "detail": detail, "ended_at": ended_at}
