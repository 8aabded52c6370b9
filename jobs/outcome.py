"""What a job came to, from how its runs ended: one verdict, in plain words."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.events import Cause
from jobs.lifecycle import Reason, State

NODE_CAUSES = (Cause.LOST, Cause.NODE_RESTARTED, Cause.FENCED)
"""The node's doing, not the job's."""


@dataclass(frozen=True)
class RunEnd:
    """How one run ended, on which node and when (any one clock, seconds)."""

    node: str
    ended_at: float
    cause: Cause
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""

    @property
    def well(self) -> bool:
        return self.cause is Cause.EXITED and self.exit_code == 0

    @property
    def finished(self) -> bool:
        """Whether it ended with exit code 0, be it that it was asked to stop."""
        return self.cause in (Cause.EXITED, Cause.STOPPED) and self.exit_code == 0


@dataclass(frozen=True)
class Verdict:
    """The job's final state, why, a sentence, and the exit code and signal it is shown with."""

    state: State
    reason: Reason
    detail: str
    exit_code: int | None = None
    signal: int | None = None


def verdict(
    ends: Sequence[RunEnd],
    *,
    cancelled_by: str | None,
    preempted_by: str = "",
    unstarted: Sequence[str] = (),
) -> Verdict:
    """Judge by the run that went wrong first; those we stopped on its account do not count.

    `unstarted` has an entry for each part that never began: why, or nothing when it was called
    off; `ends` may be empty for a cancelled job only. A job whose runs had all ended well before
    its cancellation reached them is COMPLETED: nothing was cut short. One that was to make room
    for `preempted_by` ("job 17 (production) after 3 h") is COMPLETED also when its runs had heard
    of it and then ended with exit code 0, as under Slurm: who has more to do says so by another.
    """
    if not unstarted and all(end.well for end in ends):
        return Verdict(State.COMPLETED, Reason.NONE, "", exit_code=0)
    wrong = [end for end in ends if not end.well and end.cause is not Cause.STOPPED]
    if cancelled_by is not None and not any(_by_itself(end) for end in wrong):
        stopped = next((end for end in ends if not end.well), None)
        return Verdict(
            State.CANCELLED, Reason.CANCELLED_BY_USER, f"Cancelled by {cancelled_by}.",
            stopped.exit_code if stopped else None, stopped.signal if stopped else None,
        )  # fmt: skip
    if preempted_by and not unstarted and (found := _made_room(ends, preempted_by)):
        return found
    if why := next(filter(None, unstarted), None):
        # A part that waits in vain for the others ends badly, too, or does without them.
        detail = f"{why} What of it ran elsewhere had ended by then."
        return Verdict(State.FAILED, Reason.LAUNCH_FAILURE, detail)
    first = min(wrong or ends, key=lambda end: end.ended_at)
    return _judge(first, many=len(ends) > 1)


def _by_itself(end: RunEnd) -> bool:
    return end.cause not in (Cause.STOPPED, *NODE_CAUSES)


def _made_room(ends: Sequence[RunEnd], preempted_by: str) -> Verdict | None:
    """None for what went wrong by itself before any of it was stopped."""
    unfinished = [end for end in ends if not end.finished]
    if not unfinished:
        # What it was told has no part in its end, but whoever wonders at the log should know.
        why = f"It was to make room for {preempted_by}, and ended well."
        return Verdict(State.COMPLETED, Reason.NONE, why, exit_code=0)
    first = min(unfinished, key=lambda end: end.ended_at)
    # Those that are still there when one of them is stopped may well fail for want of it.
    if _by_itself(first):
        return None
    detail = f"Preempted by {preempted_by}."
    if first.cause is not Cause.STOPPED:
        detail += f" Before it had ended: {_judge(first, many=True).detail}"
    return Verdict(State.PREEMPTED, Reason.PREEMPTED, detail, first.exit_code, first.signal)


def _judge(end: RunEnd, *, many: bool) -> Verdict:
    where = f" on {end.node}" if many else ""
    match end.cause:
        case Cause.WALLTIME:
            state, reason = State.TIMEOUT, Reason.TIME_LIMIT
            detail = f"Its walltime was over{where}."
        case Cause.MEMORY:
            state, reason = State.OUT_OF_MEMORY, Reason.OUT_OF_MEMORY
            detail = end.message or f"It used more memory than it had asked for{where}."
        case Cause.LAUNCH_FAILED | Cause.NOT_BEGUN:
            state, reason = State.FAILED, Reason.LAUNCH_FAILURE
            detail = f"It could not be started on {end.node}: {end.message}"
        case Cause.NODE_RESTARTED:
            state, reason = State.NODE_FAIL, Reason.NODE_RESTARTED
            detail = f"{end.node} was restarted while it ran."
        case Cause.FENCED:
            state, reason = State.NODE_FAIL, Reason.NODE_LOST
            detail = end.message or f"{end.node} was out of reach for too long."
        case Cause.LOST:
            state, reason = State.NODE_FAIL, Reason.RUN_LOST
            detail = end.message or f"Its processes on {end.node} were killed from outside."
        case Cause.STOPPED:
            state, reason = State.CANCELLED, Reason.CANCELLED_BY_USER
            detail = f"It was stopped{where}."
        case Cause.EXITED if end.signal:
            state, reason = State.FAILED, Reason.SIGNALED
            detail = f"It was ended by {signal_name(end.signal)}{where}."
        case _:
            state, reason = State.FAILED, Reason.NON_ZERO_EXIT
            detail = f"It ended with exit code {end.exit_code}{where}."
    return Verdict(state, reason, detail, end.exit_code, end.signal)


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `signal 99` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
