"""The outer guard of a run: waits for the inner one, the minder, and does its duty if it is
killed. Both adopt orphans; either alone is enough to end everything that the run started.
"""

import os
import signal

from . import guard, minder, processes, watch, writing
from .spool import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""A guard leaves when its run has ended and for no other wish."""


class Line:
    """The way back to the launcher, while it waits: one short line tells that a run started."""

    def __init__(self, fd: int, index: int) -> None:
        self.fd = fd
        self.index = index

    def tell(self, started_at: float) -> None:
        """Tell when it started."""
        try:
            os.write(self.fd, ("%d %r\n" % (self.index, started_at)).encode("ascii"))
        except OSError:
            pass  # The launcher has gone; the state files tell the same.

    def hang_up(self) -> None:
        """Nothing more will be said."""
        os.close(self.fd)


def keep(run: Run, spec: "dict[str, Any]", line: Line, null: int) -> None:
    """Be the keeper; never returns."""
    os.setsid()
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    adopts = guard.adopt_orphans()
    me = os.getpid()
    inner = os.fork()
    if inner == 0:
        try:
            minder.mind(run, spec, line, null, me)
        except BaseException as error:
            _confess(run, error)
        finally:
            os._exit(1)
    line.hang_up()
    _, status = os.waitpid(inner, 0)
    if status != 0 and run.read("exit.json") is None:
        _stand_in(run, status, adopts)
    os._exit(0)


def _confess(run: Run, error: BaseException) -> None:
    """Leave a word for the keeper of why its minder failed."""
    try:
        run.write("failure.json", {"error": "%s: %s" % (type(error).__name__, error)})
    except OSError:
        pass


def _stand_in(run: Run, status: int, adopts: bool) -> None:
    """The minder was killed: end all that it left to us, then say so."""
    witness = writing.Witness(_checkpoint_dir(run))
    processes.end_descendants(lambda: _reap(witness), witness.look)
    if not adopts:
        processes.end_marked(run.dir)
    if run.take("begun", "never.launch_failed"):
        run.finish("launch_failed", "the launch failed before the run could begin")
    elif run.read("exit.json") is None:
        how = (
            "by signal %d" % os.WTERMSIG(status)
            if os.WIFSIGNALED(status)
            else "by %s" % (run.read("failure.json") or {}).get("error", "itself")
        )
        run.finish(
            "lost",
            "the process that watched it ended %s; all its processes were killed" % how,
            torn=witness.close(),
        )
    watch.notify(run.spool, run.key)


def _checkpoint_dir(run: Run) -> "str | None":
    started = run.read("started.json")
    return started["checkpoint_dir"] if started else None


def _reap(witness: "writing.Witness") -> bool:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        witness.reaped(pid, status)
