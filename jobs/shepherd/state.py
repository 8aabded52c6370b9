"""What has become of a run: the one place where that is decided.

Looking is not passive: whoever finds a run whose launcher or guards are gone settles it, once
and for all, after nothing of it can start any more and nothing of it lives.
"""

import os
import time

from . import processes
from .spool import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEVER = "never."
_WHY_NEVER = {
    "stopped": "stopped before it began",
    "launch_failed": "the launch was cut off before the run could begin; nothing was started",
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
        """It was stopped before it could begin."""
        return self.started is None and self.end is not None and self.end["cause"] == "stopped"


def look(run: Run) -> Look:
    """Tell a run's state; settle it first if nobody else will. Raises OSError when unreadable."""
    if not os.path.isdir(run.dir):
        os.listdir(run.spool.runs)  # Raises when we may not look there at all.
        return Look("absent")
    end = run.read("exit.json")
    if end is not None:
        return _exited(run, end)
    begun = run.link("begun")
    if begun is None:
        if run.spool.is_launching():
            return Look("unknown", "it is just being launched")
        # Whoever takes the link decides. If the launch lives after all, it will see this.
        run.take("begun", NEVER + "launch_failed")
        begun = run.link("begun") or ""
    if begun.startswith(NEVER):
        cause = begun[len(NEVER) :]
        return _exited(run, run.read("exit.json") or run.finish(cause, _WHY_NEVER[cause]))
    guards = run.spool.alive(begun)
    if guards:
        return _running(run, guards, int(begun.split(".")[0]))
    # They may have finished their work between our two looks.
    end = run.read("exit.json")
    return _exited(run, end) if end is not None else _bury(run, begun)


def _running(run: Run, guards: "list[int]", minder: int) -> Look:
    seen = Look("running")
    seen.minder = minder if minder in guards else None
    seen.started = run.read("started.json")
    return seen


def _exited(run: Run, end: "dict[str, Any]") -> Look:
    seen = Look("exited", end["message"])
    seen.end = end
    seen.started = run.read("started.json")
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
