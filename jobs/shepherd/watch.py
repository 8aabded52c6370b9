"""Who wants to know at once. The verb `watch` prints a line for each change of a run, and the
minders tell every watcher through a named pipe in `SPOOL/watch/`.

Named pipes rather than sockets: any path length, and no module to load for it.
"""

import errno
import os
import select
import time

from . import wire
from .spool import Spool, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIGN_OF_LIFE_S = 5.0
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


def _open_pipe(spool: Spool) -> "tuple[int, str]":
    """A pipe that already has its reader when it appears under its name."""
    name = _prefix() + str(os.getpid())
    hidden = os.path.join(spool.watchers, "." + name)
    path = os.path.join(spool.watchers, name)
    _remove(hidden)
    os.mkfifo(hidden, 0o600)
    # Open for writing as well, so that it never reads as ended.
    fd = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    os.rename(hidden, path)
    return fd, path


def _keys(pipe: int) -> "list[str]":
    text = b""
    while True:
        try:
            text += os.read(pipe, 65536)
        except BlockingIOError:
            return sorted({line.decode("ascii", "replace") for line in text.split()})


def verb(spool: Spool, request: "dict[str, Any]") -> "dict[str, Any]":
    """Print `{"key": KEY}` for each change, and `{}` at once and every 5 s, until nobody reads."""
    spool.prepare()
    notify(spool, "")  # Removes the pipes of watchers that were killed.
    pipe, path = _open_pipe(spool)
    parent = os.getppid()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    poll.register(1, 0)  # Errors and hang-ups are always told: our reader has gone.
    lines = [b"{}\n"]
    spoken_at = float("-inf")
    try:
        while os.getppid() == parent:
            if lines:
                write_all(1, b"".join(lines))
                spoken_at = time.monotonic()
            wait = max(0.0, spoken_at + SIGN_OF_LIFE_S - time.monotonic())
            ready = [fd for fd, _ in poll.poll(wait * 1000 + 1)]
            if 1 in ready:
                break
            keys = _keys(pipe) if ready else []
            lines = [wire.dumps({"key": key}) + b"\n" for key in keys]
            if not ready:
                lines = [b"{}\n"]
    except OSError:
        pass  # Nobody reads any more.
    finally:
        _remove(path)
    return {}
