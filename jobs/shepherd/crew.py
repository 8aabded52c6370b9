"""A run's tasks: who lives, and how the others ended."""

import os

from . import processes, signals
from .spool import Run
from .writing import Witness


class Crew:
    """Its tasks by their process groups, in rank order, of which their minder is the parent."""

    def __init__(self, run: Run, adopts: bool) -> None:
        self.groups: "list[int]" = []
        self.living: "set[int]" = set()
        self._run = run
        self._adopts = adopts
        self._ended: "list[tuple[int, int]]" = []

    def add(self, pid: int) -> None:
        """A task was started; its process leads a group."""
        self.groups.append(pid)
        self.living.add(pid)

    def reap(self, witness: Witness) -> bool:
        """Take in the dead; whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            witness.reaped(pid, status)
            if pid in self.living:
                self.living.discard(pid)
                self._ended.append((pid, status))
                if status == 0 and self.living:
                    self._run.note("left.%d" % pid, "0")

    @property
    def first_failed(self) -> "tuple[int, int] | None":
        """Its number and status."""
        return next((one for one in self._ended if one[1] != 0), None)

    @property
    def left_by_itself(self) -> bool:
        """All have ended, and none was killed."""
        statuses = [status for _, status in self._ended if os.WIFSIGNALED(status)]
        return not self.living and all(os.WTERMSIG(one) != signals.SIGKILL for one in statuses)

    def present(self) -> "set[int]":
        """The process groups that hold a process of ours: the number of one that is empty may be
        another's by now."""
        if not self._adopts:  # Those whose parent is gone are no longer below us.
            return {group for group in self.groups if processes.send_group(group, 0)}
        return processes.groups(processes.descendants(os.getpid())).intersection(self.groups)
