"""What has become of a run: the one place where that is decided.

Looking is not passive: whoever finds a run whose launcher or guards are gone settles it, once
and for all, after nothing of it can start any more and nothing of it lives.
"""

import os
import time

from . import processes, signals
from .spool import LONGEST_MESSAGE, NEVER, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CAUSES = (
    "exited", "stopped", "walltime", "memory", "launch_failed", "not_begun", "node_restarted",
    "lost", "fenced",
)  # fmt: skip
_LATEST = 1e11
_WHY_NEVER = {
    "stopped": "stopped before it began",
    "launch_failed": "the launch could not be prepared; nothing was started",
    "not_begun": "the launch was cut off before the run could begin; nothing was started",
}


class Look:
    """A run at one moment. `phase` is one of running, exited, absent, unknown."""

    __slots__ = ("end", "message", "minder", "phase", "started")

    def __init__(self, phase: str, message: str = "") -> None:
        self.phase = phase
        self.message = message
        self.end: "dict[str, Any] | None" = None
        self.started: "dict[str, Any] | None" = None
        self.minder: "int | None" = None

    @property
    def started_at(self) -> "float | None":
        """When its tasks began."""
        return self.started["started_at"] if self.started is not None else None

    @property
    def never_began(self) -> bool:
        """It was stopped, or its launch cut off, before it could begin."""
        never = ("stopped", "not_begun")
        return self.started is None and self.end is not None and self.end["cause"] in never


def look(run: Run) -> Look:
    """Tell a run's state; settle it first if nobody else will. Raises OSError when unreadable."""
    if not os.path.isdir(run.dir):
        os.listdir(run.spool.runs)  # Raises when we may not look there at all.
        return Look("absent")
    end = _end(run)
    if end is not None:
        return _exited(run, end)
    begun = run.link("begun")
    if begun is None:
        if run.spool.is_launching():
            return Look("unknown", "it is just being launched")
        # Whoever takes the link decides. If the launch lives after all, it will see this.
        run.take("begun", NEVER + "not_begun")
        begun = run.link("begun") or ""
    if begun.startswith(NEVER):
        cause = begun[len(NEVER) :]
        return _exited(run, _end(run) or run.finish(cause, _WHY_NEVER[cause]))
    guards = run.spool.alive(begun)
    if guards:
        return _running(run, guards, int(begun.split(".")[0]))
    # They may have finished their work between our two looks.
    end = _end(run)
    return _exited(run, end) if end is not None else _bury(run, begun)


def _end(run: Run) -> "dict[str, Any] | None":
    """How it ended. The job itself may have written over our files: what makes no sense in them
    is as good as nothing, or nobody could be told of the node's other runs."""
    end = run.read("exit.json")
    good = (
        end is not None
        and end.get("cause") in CAUSES
        and isinstance(end.get("message"), str)
        and _is_number(end.get("ended_at"), _LATEST)
        and len(end["message"]) <= LONGEST_MESSAGE
        and (end.get("exit_code") is None or _is_whole(end["exit_code"], 256))
        and (end.get("signal") is None or _is_whole(end["signal"], signals.MOST))
    )
    return end if good else None


def _started(run: Run) -> "dict[str, Any] | None":
    started = run.read("started.json")
    good = (
        started is not None
        and _is_number(started.get("started_at"), _LATEST)
        and isinstance(started.get("checkpoint_dir"), (str, type(None)))
        and isinstance(started.get("tasks"), list)
        and all(type(pid) is int for pid in started["tasks"])
    )
    return started if good else None


def _is_number(value: "Any", most: float) -> bool:
    return type(value) in (int, float) and 0 <= value < most


def _is_whole(value: "Any", most: int) -> bool:
    return type(value) is int and 0 <= value < most


def _running(run: Run, guards: "list[int]", minder: int) -> Look:
    seen = Look("running")
    seen.minder = minder if minder in guards else None
    seen.started = _started(run)
    return seen


def _exited(run: Run, end: "dict[str, Any]") -> Look:
    seen = Look("exited", end["message"])
    seen.end = end
    seen.started = _started(run)
    return seen


def _bury(run: Run, begun: str) -> Look:
    """Nobody watches it any more: end what is left of it, then say so."""
    left = processes.end_marked(run.dir)
    if left:
        numbers = ", ".join(str(pid) for pid in left)
        return Look("unknown", "its processes cannot be killed: %s" % numbers)
    if run.spool.is_of_this_boot(begun):
        end = run.finish("lost", "both processes that watched it were killed")
    else:
        now = time.time()
        began = os.lstat(run.path("begun")).st_mtime
        end = run.finish(
            "node_restarted",
            "the node restarted while it ran",
            ended_at=max(began, min(now, run.spool.booted_at(now))),
        )
    return _exited(run, end)
