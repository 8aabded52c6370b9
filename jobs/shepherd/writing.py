"""Who has which checkpoint open for writing: a file whose writer was killed is torn."""

import os
import time

from . import processes

TICK_S = 0.02
_READ_ONLY = 0


def _flags(pid: int, fd: str) -> int:
    text = processes.read_proc("/proc/%d/fdinfo/%s" % (pid, fd), 4096) or b""
    for line in text.splitlines():
        if line.startswith(b"flags:"):
            return int(line.split()[1], 8)
    return _READ_ONLY


def being_written(pids: "list[int]", directory: str) -> "set[tuple[int, str]]":
    """Pairs of a process and an entry of `directory` that it has open for writing, in the
    entry itself or, when that is a directory, anywhere below it."""
    prefix = os.path.realpath(directory).rstrip("/") + "/"
    found = set()
    for pid in pids:
        base = "/proc/%d/fd" % pid
        try:
            names = os.listdir(base)
        except OSError:
            continue
        for name in names:
            try:
                target = os.readlink(base + "/" + name)
            except OSError:
                continue
            if target.startswith(prefix) and _flags(pid, name) & os.O_ACCMODE != _READ_ONLY:
                found.add((pid, target[len(prefix) :].split("/", 1)[0]))
    return found


class Witness:
    """Watches the writers while a run is being ended.

    A file is torn when its writer died of a signal with it open, or died unseen: when its last
    look found the file open and no parent of ours learned how the process ended. In doubt is
    what was written between our last look and such a death.
    """

    def __init__(self, directory: "str | None") -> None:
        self.directory = directory
        self.active = False
        self._open: "set[tuple[int, str]]" = set()
        self._left_by_themselves: "set[int]" = set()
        self._torn: "set[str]" = set()
        self._looked_at = time.time()
        self.doubts: "list[list[float]]" = []

    def reaped(self, pid: int, status: int) -> None:
        """A child was taken in."""
        if not self.active:
            return
        if os.WIFEXITED(status):
            self._left_by_themselves.add(pid)
        elif self.doubts and self._looked_at <= self.doubts[-1][1]:
            self.doubts[-1][1] = time.time()
        else:
            # The kernel's time stamps lag behind by a tick.
            self.doubts.append([self._looked_at - TICK_S, time.time()])

    def look(self, pids: "list[int]") -> None:
        """See who has what open now, and what became of those before."""
        if self.directory is None:
            return
        self._looked_at = time.time()
        now_open = being_written(pids, self.directory)
        for pid, name in self._open - now_open:
            if pid in self._left_by_themselves:
                continue  # It closed its files in its own good time.
            entry = processes.stat(pid)
            if entry is None:
                self._torn.add(name)
            elif entry.is_leaving:
                now_open.add((pid, name))  # Its parent will tell; we wait for that.
        self._open = now_open

    def close(self) -> "list[str]":
        """When all are gone: the names of the torn entries."""
        for pid, name in self._open:
            if pid not in self._left_by_themselves:
                self._torn.add(name)
        return sorted(self._torn)
