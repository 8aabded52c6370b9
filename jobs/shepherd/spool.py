"""The spool directory: one directory for each run, and the state files in it.

`SPOOL/runs/KEY/` holds, in the order of a run's life:

- the directory itself: `mkdir` is the guard against a second launch of the same key;
- `script`: what to run (its environment is not kept, for it may hold secrets);
- `begun` (a symbolic link): the one decision. It is either the guards' identity, taken by the
  minder before it starts anything, or `never.CAUSE`, taken by whoever decided that nothing shall;
- `started.json`, `log`, `seen.json` (what was found out about checkpoints);
- `left.PID` (symbolic links): tasks that ended well; `stop.json`: the last demand to stop;
- `closing` (a symbolic link): its tasks have been sent a signal;
- `fence`, `fenced` (symbolic links): it shall end with the node's lease, and will (see `lease.py`);
- `exit.json`: the end; everything else is complete before it appears.

While a `launch` is under way its identity is in `SPOOL/launchers/`; without one there, a run
that has not begun never will.

A symbolic link is created together with its content and never twice: no other file is so cheap
and so atomic on every file system, NFS included.
"""

import os
import time

from . import processes, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KEY = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


NEVER = "never."
LONGEST_MESSAGE = 4000
"""Characters about how a run ended; the job may have written more over it."""


class BadKey(ValueError):
    """Not a name that a run can have."""


def read_file(path: str, limit: int = 1 << 24) -> bytes:
    """All of a file; raises OSError. What turns out to be a pipe is not waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        chunks = []
        while limit > 0:
            chunk = os.read(fd, min(limit, 65536))
            if not chunk:
                break
            chunks.append(chunk)
            limit -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)


def write_all(fd: int, data: "bytes | memoryview") -> None:
    """Write everything; raises OSError."""
    view = memoryview(data)
    while len(view):
        view = view[os.write(fd, view) :]


class Spool:
    """Where this account's runs are, and which boot of which machine this is."""

    def __init__(self, path: str) -> None:
        if path[:2] == "~/":
            path = os.path.join(processes.home(), path[2:])
        if path[:1] != "/":
            raise ValueError("SPOOL must be an absolute path or start with ~/")
        self.path = os.path.realpath(path)
        self.runs = os.path.join(self.path, "runs")
        self.watchers = os.path.join(self.path, "watch")
        self.launchers = os.path.join(self.path, "launchers")
        self.leases = os.path.join(self.path, "leases")
        self.boot_id = self._boot_id()

    def _boot_id(self) -> str:
        # A practice node has a boot id of its own: several of them share one kernel.
        for path in (os.path.join(self.path, "boot_id"), "/proc/sys/kernel/random/boot_id"):
            try:
                text = read_file(path, 200).decode("ascii", "replace").strip()
                return text.replace(".", "-").replace("/", "-")
            except OSError:
                continue
        return "unknown"

    def booted_at(self, now: float) -> float:
        """When this boot began, on the wall clock."""
        try:
            return os.stat(os.path.join(self.path, "boot_id")).st_mtime
        except OSError:
            return now - time.clock_gettime(processes.BOOTTIME)

    def prepare(self) -> None:
        """Make the directories, for this account alone."""
        for path in (self.runs, self.watchers, self.launchers, self.leases):
            if not os.path.isdir(path):
                os.makedirs(path, 0o700, exist_ok=True)

    def identity(self, *pids: int) -> str:
        """Processes of this boot, so that no later one is taken for them:
        `pid.start.pid.start.boot`."""
        pairs = ["%d.%d" % (pid, processes.start_time(pid)) for pid in pids]
        return ".".join(pairs + [self.boot_id])

    def is_of_this_boot(self, identity: str) -> bool:
        """Whether the processes it names are of the machine's present boot."""
        return identity.split(".")[-1] == self.boot_id

    def alive(self, identity: str) -> "list[int]":
        """Which of the very processes that it names still run."""
        if not self.is_of_this_boot(identity):
            return []
        words = [int(word) for word in identity.split(".")[:-1]]
        pairs = zip(words[::2], words[1::2])
        return [pid for pid, start in pairs if processes.is_alive(pid, start)]

    def announce_launcher(self) -> str:
        """Say that this process is launching; the path to remove when it is done."""
        for name in os.listdir(self.launchers):
            if self.is_of_this_boot(name) and not self.alive(name):
                self.leave(os.path.join(self.launchers, name))  # It was killed.
        path = os.path.join(self.launchers, self.identity(os.getpid()))
        os.symlink("launch", path)
        return path

    def leave(self, presence: str) -> None:
        """That launch is over, as somebody else may just be saying, too."""
        try:
            os.unlink(presence)
        except FileNotFoundError:
            pass

    def is_launching(self) -> bool:
        """Whether any launch is under way on this machine."""
        return any(self.alive(name) for name in os.listdir(self.launchers))

    def run(self, key: str) -> "Run":
        """The run of that key, whether it exists or not; raises BadKey."""
        good = isinstance(key, str) and 0 < len(key) <= 100 and key[0] != "." and set(key) <= _KEY
        if not good:
            raise BadKey("key %r: letters, digits, '.', '_' and '-' only" % (key,))
        return Run(self, key)


class Run:
    """One run's directory."""

    def __init__(self, spool: Spool, key: str) -> None:
        self.spool = spool
        self.key = key
        self.dir = os.path.join(spool.runs, key)
        self.log = os.path.join(self.dir, "log")

    def path(self, name: str) -> str:
        """The path of one of its files."""
        return os.path.join(self.dir, name)

    def read(self, name: str) -> "dict[str, Any] | None":
        """A state file; None when it is not there or was cut off by a crash."""
        try:
            value = wire.loads(read_file(self.path(name)).decode("utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def write(self, name: str, value: "dict[str, Any]") -> None:
        """Write a state file whole or not at all; raises OSError."""
        temporary = self.path(".%s.%d" % (name, os.getpid()))
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, wire.dumps(value))
            os.rename(temporary, self.path(name))
        except OSError:
            os.unlink(temporary)
            raise
        finally:
            os.close(fd)

    def link(self, name: str) -> "str | None":
        """What a link holds; None when it is not there."""
        try:
            return os.readlink(self.path(name))
        except FileNotFoundError:
            return None

    def take(self, name: str, text: str) -> bool:
        """Create a link; False when somebody was faster. Raises OSError."""
        try:
            os.symlink(text, self.path(name))
        except FileExistsError:
            return False
        return True

    def never(self, cause: str, message: str) -> bool:
        """It shall not begin; False when it has, or somebody decided so before. Raises OSError."""
        if not self.take("begun", NEVER + cause):
            return False
        self.finish(cause, message)
        return True

    def note(self, name: str, text: str) -> None:
        """Create a link if it can be done: nothing hangs on it but what is shown."""
        try:
            self.take(name, text)
        except OSError:
            pass

    def log_bytes(self) -> int:
        """The log's length."""
        try:
            return os.stat(self.log).st_size
        except OSError:
            return 0

    def finish(
        self, cause: str, message: str, patience_s: float = 0.0, **more: "Any"
    ) -> "dict[str, Any]":
        """Write `exit.json` and give what it holds. A full disk is waited for if the writer
        alone knows how it ended; else all who come later reach the same conclusion."""
        end: "dict[str, Any]" = {
            "cause": cause,
            "message": message[:LONGEST_MESSAGE],
            "exit_code": None,
            "signal": None,
            "ended_at": time.time(),
            "log_bytes": self.log_bytes(),
        }
        end.update(more)
        deadline = time.monotonic() + patience_s
        while True:
            try:
                if patience_s and not os.path.isdir(self.dir):
                    os.makedirs(self.dir, 0o700)  # Somebody removed it; this is worth another.
                self.write("exit.json", end)
                return end
            except OSError:
                if time.monotonic() >= deadline:
                    return end
            time.sleep(1.0)
