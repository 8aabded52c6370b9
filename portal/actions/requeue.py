"""Bring jobs back to the queue that made room or lost a node, to go on from what they saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from jobs.lifecycle import Reason, State
from jobs.scheduler.preempt import in_a_row
from portal.models import Checkpoint, Job, Move
from portal.queries import preemption

MAX_NODE_LOSSES = 8
"""In a row, before a job is held for somebody to look: it may be what brings the nodes down."""


class End(NamedTuple):
    """How an attempt ended: its last columns, and where that brings its job."""

    attempt: dict[str, Any]
    move: Move


def requeued(ends: Mapping[int, End]) -> dict[int, End]:
    """Those of them, by attempt, in which a job was pushed aside, with what becomes of it instead.

    It waits again, unless it asked not to be started twice; then that is its end.
    """
    pushed = (State.PREEMPTED, State.NODE_FAIL)
    found = {pk: end for pk, end in ends.items() if end.move.to in pushed}
    if not found:
        return {}
    ids = [end.move.job.pk for end in found.values()]
    rows = Job.objects.only("spec", "preemptions", "node_losses", "resume_from").in_bulk(ids)
    saved = preemption.newest_checkpoints(ids)
    flawed = preemption.newest_flawed(ids)
    return {
        pk: _end(end, rows[end.move.job.pk], saved.get(job_id), flawed.get(job_id))
        for pk, end in found.items()
        for job_id in [end.move.job.pk]
    }


def _end(end: End, row: Job, saved: Checkpoint | None, flawed: Checkpoint | None) -> End:
    """`row` has what settling does not read of a job."""
    attempt, move = end
    if row.spec.get("requeue") is False:
        detail = f"{move.detail} It had asked not to be started again."
        return End(attempt | {"detail": detail}, replace(move, detail=detail))
    began = move.changes["started_at"]
    ran_s = (move.changes["ended_at"] - began).total_seconds() if began else 0.0
    detail = f"{move.detail} {_resumes(row, saved)}{_passed_over(saved, flawed)}."
    changes: dict[str, Any] = {
        "started_at": None,
        "resume_from": saved.path if saved else row.resume_from,
    }
    if move.to is State.PREEMPTED:
        changes["preemptions"] = in_a_row(row.preemptions, ran_s) + 1
        back = Move(move.job, State.PENDING, move.reason, detail, changes=changes)
    else:
        back = _after_loss(move, detail, in_a_row(row.node_losses, ran_s) + 1, changes)
    return End(attempt | {"detail": detail}, back)


def _after_loss(move: Move, detail: str, losses: int, changes: dict[str, Any]) -> Move:
    """`losses`: how often in a row it has lost a node by now."""
    changes["node_losses"] = losses
    if losses < MAX_NODE_LOSSES:
        return Move(move.job, State.PENDING, move.reason, detail, changes=changes)
    detail = f"It lost its node {losses} times in a row; the last: {detail} Release it once the "
    detail += "reason is known."
    # Whoever releases it wants it tried as often again.
    changes |= {"node_losses": 0, "held": True}
    return Move(move.job, State.PENDING, Reason.HELD_REQUEUE, detail, changes=changes)


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
