"""Bring preempted jobs back to the queue, to go on from what they saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from jobs.lifecycle import State
from jobs.scheduler.preempt import in_a_row
from portal.models import Checkpoint, Job, Move
from portal.queries import preemption


class End(NamedTuple):
    """How an attempt ended: its last columns, and where that brings its job."""

    attempt: dict[str, Any]
    move: Move


def requeued(ends: Mapping[int, End]) -> dict[int, End]:
    """Those of them, by attempt, in which a job was preempted, with what becomes of it instead.

    It waits again, unless it asked not to be started twice; then that is its end.
    """
    preempted = {pk: end for pk, end in ends.items() if end.move.to is State.PREEMPTED}
    if not preempted:
        return {}
    ids = [end.move.job.pk for end in preempted.values()]
    rows = Job.objects.only("spec", "preemptions", "resume_from").in_bulk(ids)
    saved = preemption.newest_checkpoints(ids)
    flawed = preemption.newest_flawed(ids)
    return {
        pk: _end(end, rows[end.move.job.pk], saved.get(job_id), flawed.get(job_id))
        for pk, end in preempted.items()
        for job_id in [end.move.job.pk]
    }


def _end(end: End, row: Job, saved: Checkpoint | None, flawed: Checkpoint | None) -> End:
    """`row` has what settling does not read of a job."""
    attempt, move = end
    if row.spec.get("requeue") is False:
        detail = f"{move.detail} It had asked not to be started again."
        return End(attempt | {"detail": detail}, replace(move, detail=detail))
    detail = f"{move.detail} {_resumes(row, saved)}{_passed_over(saved, flawed)}."
    ran: timedelta = move.changes["ended_at"] - move.changes["started_at"]
    changes = {
        "started_at": None,
        "preemptions": in_a_row(row.preemptions, ran.total_seconds()) + 1,
        "resume_from": saved.path if saved else row.resume_from,
    }
    back = Move(move.job, State.PENDING, move.reason, detail, changes=changes)
    return End(attempt | {"detail": detail}, back)


def _resumes(row: Job, saved: Checkpoint | None) -> str:
    if saved:
        return f"It resumes from {saved.called}"
    again = "from the checkpoint it was given" if row.resume_from else "from the beginning"
    return f"It has no complete checkpoint and starts again {again}"


def _passed_over(saved: Checkpoint | None, flawed: Checkpoint | None) -> str:
    """Why not from a later one."""
    if flawed is None or (saved and flawed.modified_at <= saved.modified_at):
        return ""
    if flawed.problem:
        return f": {flawed.called} is not whole: {flawed.problem}"
    return f": {flawed.called} was cut off while it was being written"
