"""Have running jobs make room for others, as a plan says; `requeue` brings them back."""

from __future__ import annotations

import math
import signal
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from jobs.bands import Band
from jobs.lifecycle import Reason, State
from jobs.outcome import signal_name
from jobs.scheduler.policy import Policy
from jobs.scheduler.words import span
from portal import hints, live
from portal.models import Allocation, Attempt, Event, Job, Move, move_all, update_each
from portal.queries import preemption

CLAIM_LASTS = timedelta(minutes=10)
"""After the last of those who make room should be gone. A node that does not answer must not give
a job the first place for ever."""
READ = (
    "state", "held", "cancelled_at", "spec", "band", "array_id", "array_index", "project__name",
)  # fmt: skip


def preempt(victims: Mapping[int, int], *, policy: Policy, now: datetime) -> list[int]:
    """Tell each of these jobs to stop for the sake of another; the ids of those that were told.

    Call it in a transaction. A victim gets the signal that it asked to be warned with, else
    SIGTERM, and is killed `policy.grace_s` after. Left alone is who no longer runs, or whose
    preemptor no longer waits.
    """
    jobs = _lock({*victims, *victims.values()})
    pairs = {
        victim: jobs[other]
        for victim, other in victims.items()
        if victim in jobs and other in jobs and _runs(jobs[victim]) and _waits(jobs[other])
    }
    attempts = dict(
        Attempt.objects.filter(job__in=pairs, ended_at=None).values_list("job_id", "pk")
    )
    told = {pk: other for pk, other in pairs.items() if pk in attempts}
    if not told:
        return []
    grace_s = max(0, math.ceil(policy.grace_s))
    words = {pk: _preemptor(other, jobs[pk], policy) for pk, other in told.items()}
    update_each(
        Attempt.objects.all(),
        {
            attempts[pk]: {
                "preemptor": other,
                "preempted_by": words[pk],
                "leaves_by": now + timedelta(seconds=grace_s),
            }
            for pk, other in told.items()
        },
    )
    signals = {pk: _signal(jobs[pk]) for pk in told}
    _stop(signals, grace_s, now)
    move_all(
        [_leaving(jobs[pk], words[pk], signals[pk], grace_s) for pk in told],
        now=now,
    )
    _claim({pk: jobs[pk] for pk in told}, told, now)
    return sorted(told)


def drop_claims(*, now: datetime) -> int:
    """Let jobs wait as all others that did not take the room made for them; how many."""
    outdated = preemption.outdated_claims(now, CLAIM_LASTS)
    # Most often there is none, and nobody who writes has to wait.
    return _drop(outdated, now) if outdated.exists() else 0


@transaction.atomic
def _drop(outdated: QuerySet[Job], now: datetime) -> int:
    # Whoever is being changed starts, or is held, and has its claim no more.
    locked = outdated.select_for_update(of=("self",), skip_locked=True).order_by("pk")
    ids = list(locked.values_list("pk", flat=True))
    Job.objects.filter(pk__in=ids).update(claimed_at=None)
    lasted = span(CLAIM_LASTS.total_seconds())
    why = f"It did not take the room made for it within {lasted}, and waits for its turn."
    Event.objects.bulk_create(
        Event(at=now, job_id=pk, kind="claim dropped", detail=why) for pk in ids
    )
    live.changed(*(f"job-{pk}" for pk in ids))
    return len(ids)


def _lock(job_ids: Collection[int]) -> dict[int, Job]:
    """In the order in which everybody locks jobs."""
    jobs = Job.objects.select_for_update(of=("self",)).select_related("project").only(*READ)
    return {job.pk: job for job in jobs.filter(pk__in=job_ids).order_by("pk")}


def _runs(job: Job) -> bool:
    return job.state == State.RUNNING and not job.cancelled_at


def _waits(job: Job) -> bool:
    return job.state == State.PENDING and not job.held


def _signal(job: Job) -> int:
    warning = job.spec.get("warning")
    return int(warning["number"]) if warning else int(signal.SIGTERM)


def _preemptor(job: Job, victim: Job, policy: Policy) -> str:
    if Band(victim.band) in policy.preempts.get(Band(job.band), frozenset()):
        return f"job {job.label} ({job.band})"
    return f"job {job.label} (what was lent goes back to project {job.project.name})"


def _stop(signals: Mapping[int, int], grace_s: int, now: datetime) -> None:
    """Write down the stop of every part; `signals` are by job."""
    parts = Allocation.objects.filter(
        attempt__job__in=signals, attempt__ended_at=None, phase__in=Allocation.OPEN
    )
    rows = list(parts.values_list("pk", "attempt__job_id", "node_id"))
    changes: dict[int, dict[str, Any]] = {
        pk: {"stop_wanted_at": now, "stop_signal": signals[job_id], "stop_grace_s": grace_s}
        for pk, job_id, _ in rows
    }
    update_each(Allocation.objects.filter(phase__in=Allocation.OPEN), changes)
    for node_id in {node_id for _, _, node_id in rows}:
        hints.dispatch(node_id)


def _leaving(job: Job, preemptor: str, number: int, grace_s: int) -> Move:
    why = f"Makes room for {preemptor}: it gets {signal_name(number)} and {span(grace_s)} to end."
    return Move(job, State.COMPLETING, Reason.PREEMPTED, why)


def _claim(victims: Mapping[int, Job], told: Mapping[int, Job], now: datetime) -> None:
    claimants = {other.pk for other in told.values()}
    # Of those who asked before, the first time counts: they keep their order.
    Job.objects.filter(pk__in=claimants, claimed_at=None).update(claimed_at=now)
    Event.objects.bulk_create(
        Event(at=now, job=other, kind="preempts", detail=f"Job {victims[pk].label} makes room.")
        for pk, other in told.items()
    )
    live.changed(*(f"job-{pk}" for pk in sorted(claimants)))
