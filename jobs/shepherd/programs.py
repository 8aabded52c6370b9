"""Asking another program, with a deadline that holds even if it hangs in the kernel."""

import os
import select
import time

from . import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_BYTES = 4 << 20


def find(name: str) -> "str | None":
    """Where a program is on the PATH."""
    places = os.environ.get("PATH") or "/usr/local/bin:/usr/bin:/bin"
    for place in places.split(":"):
        path = os.path.join(place or ".", name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


class Program:
    """A program that has been started; several may run side by side."""

    def __init__(self, argv: "list[str]", within_s: float) -> None:
        self.argv = argv
        self._deadline = time.monotonic() + within_s
        self._within_s = within_s
        self.said = ""
        """What it printed by its end, or until it was given up, however it ended."""
        self._fd, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._become(writing)
        os.close(writing)

    def _become(self, writing: int) -> None:
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            signals.handle(signals.SIGPIPE, signals.DEFAULT)
            os.execve(self.argv[0], self.argv, dict(os.environ, LC_ALL="C"))
        finally:
            os._exit(127)

    def answer(self) -> "tuple[str | None, str]":
        """What it printed, or None and what went wrong. Never raises for its sake."""
        name = os.path.basename(self.argv[0])
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        chunks: "list[bytes]" = []
        size = 0
        while True:
            # Of one that has been left alone for longer, what is there by now counts all the same.
            left = max(self._deadline - time.monotonic(), 0.0)
            if not poll.poll(left * 1000):
                self._drop()
                return None, "%s did not answer within %g s" % (name, self._within_s)
            chunk = os.read(self._fd, 65536)
            size += len(chunk)
            if not chunk or size > MAX_BYTES:
                break
            chunks.append(chunk)
        status = self._await_end()
        text = self.said = b"".join(chunks).decode("utf-8", "replace")
        if status is None:
            return None, "%s did not end within %g s" % (name, self._within_s)
        if status != 0:
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            said = " ".join(text.split())[:300]
            return None, "%s failed with code %d: %s" % (name, code, said)
        return text, ""

    def _await_end(self) -> "int | None":
        pause = 0.001
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                os.close(self._fd)
                return status
            if time.monotonic() > self._deadline:
                break
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        self._drop()
        return None

    def _drop(self) -> None:
        """Kill it and do not wait: in an uninterruptible sleep it may not die for hours."""
        try:
            os.killpg(self._pid, signals.SIGKILL)
        except OSError:
            pass
        os.close(self._fd)


def ask(argv: "list[Any]", within_s: float) -> "tuple[str | None, str]":
    """Start one and wait for what it says."""
    return Program(argv, within_s).answer()
