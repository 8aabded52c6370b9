"""The outer guard of the runs of one launch: waits for the inner ones, their minders, and does
a minder's duty if it is killed. Both adopt orphans; either alone is enough to end everything
that a run started.
"""

import os

from . import guard, minder, processes, signals, watch, writing
from .beginning import Beginning
from .spool import Run

IGNORED = (signals.SIGHUP, signals.SIGINT, signals.SIGTERM)
"""A guard leaves when its run has ended and for no other wish."""


def keep(beginnings: "list[Beginning]") -> None:
    """Be the keeper of these runs, at least one; never returns."""
    os.setsid()
    for number in IGNORED:
        signals.handle(number, signals.IGNORE)
    for fd in (0, 1, 2):
        os.dup2(beginnings[0].null, fd)
    me = Keeper()
    for beginning in beginnings:
        me.start(beginning)
    beginnings[0].hang_up()
    while me.minders:
        me.wait()
    os._exit(0)


class Keeper:
    """The minders by their process numbers, and what to do when one is killed."""

    def __init__(self) -> None:
        self.adopts = guard.adopt_orphans()
        self.minders: "dict[int, Run]" = {}
        self.witness = writing.Witness(None)

    def start(self, beginning: Beginning) -> None:
        """Start a run's minder. If that fails, the run ends as one that could not start."""
        run, keeper = beginning.run, os.getpid()
        try:
            inner = os.fork()
        except OSError as error:
            if run.take("begun", "never.launch_failed"):
                run.finish("launch_failed", "cannot start a process: %s" % error.strerror)
            return
        if inner == 0:
            try:
                minder.mind(beginning, keeper)
            except BaseException as error:
                _confess(run, error)
            finally:
                os._exit(1)
        self.minders[inner] = run

    def wait(self) -> None:
        """Sleep until somebody dies. Orphans come to us only from a minder that was killed."""
        pid, status = os.waitpid(-1, 0)
        run = self.minders.pop(pid, None)
        if run is not None and status != 0 and run.read("exit.json") is None:
            self._stand_in(run, status)

    def _stand_in(self, run: Run, status: int) -> None:
        """A minder was killed: end all that it left to us, then say so."""
        started = run.read("started.json") or {}
        self.witness = writing.Witness(started.get("checkpoint_dir"))
        processes.end_descendants(self._reap, self.witness.look, sparing=self.minders)
        if not self.adopts:
            processes.end_marked(run.dir)
        if run.take("begun", "never.not_begun"):
            run.finish("not_begun", "its minder was killed before it could begin")
        elif run.read("exit.json") is None:
            how = (
                "by signal %d" % os.WTERMSIG(status)
                if os.WIFSIGNALED(status)
                else "by %s" % (run.read("failure.json") or {}).get("error", "itself")
            )
            run.finish(
                "lost",
                "the process that watched it ended %s; all its processes were killed" % how,
                torn=self.witness.close(),
            )
        watch.notify(run.spool, run.key)

    def _reap(self) -> bool:
        """Take in dead orphans; whether any is left. Dead minders wait for their turn."""
        orphans = [pid for pid in processes.children(os.getpid()) if pid not in self.minders]
        left = False
        for orphan in orphans:
            pid, status = os.waitpid(orphan, os.WNOHANG)
            left = left or pid == 0
            if pid:
                self.witness.reaped(pid, status)
        return left


def _confess(run: Run, error: BaseException) -> None:
    """Leave a word for the keeper of why its minder failed."""
    try:
        run.write("failure.json", {"error": "%s: %s" % (type(error).__name__, error)})
    except OSError:
        pass
