"""The outer guard of the runs of one launch: waits for the inner ones, their minders, and does
a minder's duty if it is killed. Both adopt orphans; either alone is enough to end everything
that a run started.
"""

import os

from . import guard, lease, minder, processes, signals, watch, writing
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
    me = Keeper(lease.Lease(beginnings[0].run.spool))
    me.hand_out_term(beginnings)
    signals.handle(signals.SIGUSR1, me.put_up_fences)
    for beginning in beginnings:
        me.start(beginning)
    beginnings[0].hang_up()
    me.put_up_fences()
    while me.minders:
        me.wait()
    os._exit(0)


class Keeper:
    """The minders by their process numbers, and what to do when one is killed."""

    def __init__(self, of_node: lease.Lease) -> None:
        self.adopts = guard.adopt_orphans()
        self.minders: "dict[int, Run]" = {}
        self.lease = of_node
        self.fence = lease.Fence(self._kill_fenced, lease.SECOND_GUARD_S)
        self.fenced: "set[int]" = set()
        self.term: "lease.Term | None" = None
        self.witness = writing.Witness(None)

    def start(self, beginning: Beginning) -> None:
        """Start a run's minder. If that fails, the run ends as one that could not start."""
        run, keeper = beginning.run, os.getpid()
        try:
            inner = os.fork()
        except OSError as error:
            run.never("launch_failed", "cannot start a process: %s" % error.strerror)
            return
        if inner == 0:
            try:
                minder.mind(beginning, keeper)
            except BaseException as error:
                _confess(run, error)
            finally:
                os._exit(1)
        self.minders[inner] = run

    def hand_out_term(self, beginnings: "list[Beginning]") -> None:
        """The present one, to those that are to be fenced."""
        fenced = [beginning for beginning in beginnings if beginning.spec["fence"]]
        if fenced:
            self.term = self.lease.term()
        for beginning in fenced:
            beginning.term = self.term

    def put_up_fences(self, *_: object) -> None:
        """Behind which all runs shall be that ask for it; each is told when it is."""
        for pid, run in list(self.minders.items()):
            try:
                if pid not in self.fenced and run.link(lease.WANTED) is not None:
                    self._fence_in(pid)
                    run.take(lease.UP, "1")
                    watch.notify(run.spool, run.key)
            except OSError:
                continue  # Nobody is told that it is fenced.

    def _fence_in(self, pid: int) -> None:
        if self.fence.lapsed:
            self.fence, self.fenced = lease.Fence(self._kill_fenced, lease.SECOND_GUARD_S), set()
            self.term = None
        if not self.fence.is_up:
            self.fence.put_up(self.term or self.lease.term())
        self.fenced.add(pid)

    def _kill_fenced(self) -> None:
        """What their minders should have done: one may be stopped."""
        lease.kill_below(lambda: self.minders.keys() - self.fenced)

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
        never = run.never("not_begun", "its minder was killed before it could begin")
        if not never and run.read("exit.json") is None:
            cause, message = self._cause(run, status)
            run.finish(cause, message, torn=self.witness.close())
        watch.notify(run.spool, run.key)

    def _cause(self, run: Run, status: int) -> "tuple[str, str]":
        if self.fence.lapsed and run.link(lease.WANTED) is not None:
            return "fenced", lease.WHY
        how = (
            "by signal %d" % os.WTERMSIG(status)
            if os.WIFSIGNALED(status)
            else "by %s" % (run.read("failure.json") or {}).get("error", "itself")
        )
        return "lost", "the process that watched it ended %s; all its processes were killed" % how

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
