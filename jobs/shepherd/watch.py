"""Who wants to know at once: minders tell every watcher of each change of a run, through a named
pipe in `SPOOL/watch/`.

Named pipes rather than sockets: any path length, and no module to load for it.
"""

import errno
import os

from .spool import Spool

AT_MOST_EVERY_S = 0.5


def _prefix() -> str:
    # A home directory may be shared by many machines: each looks after its own pipes only.
    return os.uname().nodename.replace("/", "_") + "."


def notify(spool: Spool, key: str) -> None:
    """Tell all watchers on this machine that something about a run has changed."""
    try:
        names = os.listdir(spool.watchers)
    except OSError:
        return
    prefix = _prefix()
    for name in names:
        if not name.startswith(prefix):
            continue
        path = os.path.join(spool.watchers, name)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:
                _remove(path)  # Its watcher has gone without a farewell.
            continue
        try:
            os.write(fd, key.encode("ascii") + b"\n")
        except OSError:
            pass  # It is full: its reader has enough to wake up for.
        finally:
            os.close(fd)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


class Notifier:
    """Tells watchers of one run, at most twice a second."""

    def __init__(self, spool: Spool, key: str) -> None:
        self.spool = spool
        self.key = key
        self.due: "float | None" = None
        self._told_at = float("-inf")

    def changed(self, now: float) -> None:
        """Something changed: tell now, or as soon as allowed."""
        if self.due is None:
            self.due = max(now, self._told_at + AT_MOST_EVERY_S)
        self.tick(now)

    def tick(self, now: float) -> None:
        """Tell what has fallen due."""
        if self.due is not None and now >= self.due:
            self.due = None
            self._told_at = now
            notify(self.spool, self.key)


class Pipe:
    """The pipe of one watcher. It already has its reader when it appears under its name."""

    def __init__(self, spool: Spool) -> None:
        name = _prefix() + str(os.getpid())
        hidden = os.path.join(spool.watchers, "." + name)
        self._path = os.path.join(spool.watchers, name)
        _remove(hidden)
        os.mkfifo(hidden, 0o600)
        # Open for writing as well, so that it never reads as ended.
        self.fd = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        os.rename(hidden, self._path)

    def changed(self) -> "list[str]":
        """The keys of runs that have changed since the last time."""
        text = b""
        while True:
            try:
                text += os.read(self.fd, 65536)
            except BlockingIOError:
                return sorted({line.decode("ascii", "replace") for line in text.split()})

    def remove(self) -> None:
        """Nobody shall be told through it any more."""
        _remove(self._path)
