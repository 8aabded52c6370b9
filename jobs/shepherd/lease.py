"""The node's lease: until when the portal vouches for the runs here that it may start elsewhere.

Its end is a moment of this machine's own clock, which nobody sets and which runs on through a
suspend, so it means the same however late a word of it arrives. A run behind a *fence* is killed
when the lease ends; the portal waits for that before it starts the job again.

`SPOOL/leases/BOOT_ID` has the end as its time of modification: that can be set on a full disk. A
lease that has ended is not prolonged. What is granted later begins a new term, a new file, and
who is behind a fence of the old one holds on to the old file: however late it wakes up from a
freeze, it finds that its term is over.
"""

import _thread
import os
import time

from . import processes, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .spool import Run, Spool

WANTED = "fence"
UP = "fenced"
"""Links of a run: its fence is asked for; both its guards count."""
TOO_LATE = "its launch came when the lease that it came with had ended; nothing was started"
WHY = "Carrel could not reach this node for too long: ended, to go on elsewhere"
TICK_S = 0.25
LOOK_S = 1.0
SECOND_GUARD_S = 2.0
"""So much after the end the outer guard does what the inner one has not."""
OLD_S = 86400.0
_NEVER = float("inf")


def clock() -> float:
    """Seconds since the boot, those of a suspend with them."""
    return time.clock_gettime(processes.BOOTTIME)


class Term:
    """One term of the lease, however often prolonged."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def ends_at(self) -> float:
        """By `clock`. Raises OSError."""
        return os.fstat(self._fd).st_mtime


class Lease:
    """Where its end is kept."""

    def __init__(self, spool: "Spool") -> None:
        self._spool = spool
        self._path = os.path.join(spool.leases, spool.boot_id)

    def ends_at(self) -> float:
        """By `clock`; 0 while none was ever given in this boot."""
        try:
            return os.stat(self._path).st_mtime
        except FileNotFoundError:
            return 0.0

    def term(self) -> Term:
        """The present one. Raises OSError, as when there is none."""
        return Term(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))

    def take_in(self, grant: "dict[str, Any] | None") -> float:
        """Have the lease last as long as this `grant` says, or longer if it does so already; when
        the grant ends, which is 0 for one of another boot. Raises OSError."""
        if grant is None or grant.get("boot_id") != self._spool.boot_id:
            return 0.0
        until, known = float(grant["until"]), self.ends_at()
        if clock() >= known:
            self._begin_term(until)
        elif until > known:
            os.utime(self._path, ns=_times(until))
        return until

    def _begin_term(self, until: float) -> None:
        if not os.path.isdir(self._spool.leases):
            self._spool.prepare()
        self._tidy()
        hidden = "%s.%d" % (self._path, os.getpid())
        os.close(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.utime(hidden, ns=_times(until))
        os.rename(hidden, self._path)

    def _tidy(self) -> None:
        """Those of earlier boots are of no use any more."""
        now = time.time()
        for name in os.listdir(self._spool.leases):
            path = os.path.join(self._spool.leases, name)
            try:
                if now - os.lstat(path).st_ctime > OLD_S:
                    os.unlink(path)
            except FileNotFoundError:
                continue


def _times(moment: float) -> "tuple[int, int]":
    nanoseconds = int(moment * 1e9)
    return nanoseconds, nanoseconds


class Fence:
    """Counts down to the end of a term, and then kills. While it is not up, it does nothing.

    It counts in threads of its own: one looks whether the term was prolonged, one kills. A disk
    that hangs may hold up the first, and all that its guard does besides, but never the second.
    """

    def __init__(self, kill: "Callable[[], None]", late_s: float = 0.0) -> None:
        """`kill` is called in the second thread, `late_s` after the end."""
        self.lapsed = False
        """Decided once and for all."""
        self.lapsed_at = 0.0
        """By the calendar."""
        self._kill = kill
        self._late_s = late_s
        self._ends_at = _NEVER

    @property
    def is_up(self) -> bool:
        """Whether it counts."""
        return self._ends_at != _NEVER

    def put_up(self, term: Term) -> None:
        """Begin to count. Raises OSError."""
        if not self.is_up:
            self._ends_at = term.ends_at()
            _thread.start_new_thread(self._look, (term,))
            _thread.start_new_thread(self._count, ())

    def _look(self, term: Term) -> None:
        while not self.lapsed:
            time.sleep(LOOK_S)
            try:
                self._ends_at = max(self._ends_at, term.ends_at())
            except OSError:
                pass  # What cannot be read was not prolonged.

    def _count(self) -> None:
        # Short steps: sleep takes no notice of a suspend.
        while clock() < self._ends_at + self._late_s:
            time.sleep(TICK_S)
        self.lapsed_at = time.time()
        self.lapsed = True
        self._kill()


def kill_below(sparing: "Callable[[], set[int]]") -> None:
    """Kill all descendants of this process but `sparing` and theirs, until none of them lives."""
    pause = 0.001
    while True:
        living = [pid for pid in processes.freeze(sparing()) if _lives(pid)]
        if not living:
            return
        for pid in living:
            processes.send(pid, signals.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.25)


def _lives(pid: int) -> bool:
    entry = processes.stat(pid)
    return entry is not None and not entry.is_dead


def is_up(run: "Run") -> bool:
    """Whether this run cannot outlive the lease."""
    return run.link(UP) is not None
