"""The way to a node: run a program there, follow one, put a file. A small protocol.

`ssh.py`, `local.py` and `memory.py` implement it under one contract test.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

# A node's answer is kept in memory: more than this is no answer but a fault.
MAX_OUTPUT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Completed:
    """What a program on a node left behind.

    `exit_code` is minus the signal's number when a signal ended it, 127 when there is no such
    program, 126 when it may not be run.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes


class NodeError(Exception):
    """A node could not be asked. `advice` says what a person can do about it."""

    advice: ClassVar[str] = "Look at the node itself; then probe it again."

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NoRoute(NodeError):
    """The name does not resolve or no packet comes back."""

    advice = "Check the host name or address, and that this machine can reach its network."


class Refused(NodeError):
    """The machine answers, but nothing listens on that port."""

    advice = "Start sshd on the node, or correct the port."


class HostKeyChanged(NodeError):
    """Another key than the pinned one: another machine, a reinstalled one, or an attack."""

    advice = (
        "If the node was reinstalled, remove it and add it again after checking the new "
        "fingerprint on its console. If not, find out who answers at this address."
    )


class LoginRefused(NodeError):
    """sshd would not let us in."""

    advice = (
        "Add Carrel's public key to ~/.ssh/authorized_keys of that account on the node, "
        "and check that the account may sign in."
    )


class NoPython(NodeError):
    """There is no usable python3 on the node."""

    advice = "Install python3 (3.6 or newer) on the node and see that it is on the PATH."


class DeadlineExceeded(NodeError):
    """It did not answer in time. What it was asked may have happened all the same."""

    advice = "The node is overloaded or hangs; look at its load and its disks."


class ConnectionLost(NodeError):
    """The connection ended in the middle. What was asked may have happened all the same."""

    advice = "Carrel connects again by itself; look at the network if this repeats."


class CommandFailed(NodeError):
    """The node answered, but the command there failed."""


class Hold:
    """A hold on a program that is followed: write to it or let it go, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._write: Callable[[bytes, float], None] | None = None
        self._end: Callable[[], None] | None = None
        self._let_go = False
        self.heard_at = 0.0
        """When it last said anything, be it a part of a line (`time.monotonic`)."""

    def heard(self) -> None:
        """Called by the transport when there is output."""
        self.heard_at = time.monotonic()

    def take(self, write: Callable[[bytes, float], None], end: Callable[[], None]) -> None:
        """Called by the transport when the program runs. `write` takes a limit in seconds, and
        raises OSError if it cannot."""
        self._write, self._end = write, end
        if self._let_go:
            end()

    def lose(self) -> None:
        """Called by the transport when the program is no longer followed."""
        self._write = self._end = None

    def write(self, data: bytes, *, timeout_s: float) -> bool:
        """Whether all of it was written. If only a part of it was, the program is let go."""
        until = time.monotonic() + timeout_s
        if not self._lock.acquire(timeout=timeout_s):
            return False
        try:
            write = self._write
            if write is None:
                return False
            write(data, max(until - time.monotonic(), 0.0))
            return True
        except OSError:
            self.let_go()
            return False
        finally:
            self._lock.release()

    def let_go(self) -> None:
        """End the program and its following, also one that has not begun."""
        self._let_go = True
        end = self._end
        if end:
            end()


class Lines:
    """Puts lines together from output as it comes in pieces."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> list[bytes]:
        """The lines that this piece completes, without their newlines. Raises `CommandFailed` for
        one of over `MAX_OUTPUT_BYTES`."""
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join([*self._pieces, whole[0]])
            self._pieces, self._size = [], 0
        self._pieces.append(rest)
        self._size += len(rest)
        if self._size > MAX_OUTPUT_BYTES:
            raise CommandFailed(f"{self._place}: a line of over {MAX_OUTPUT_BYTES} bytes")
        return whole

    def rest(self) -> list[bytes]:
        """The last line, if it has no newline."""
        last = b"".join(self._pieces)
        return [last] if last else []


class Transport(Protocol):
    """A login on one node. Safe to use from several threads."""

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30) -> Completed:
        """Run a program to its end. The input's end is not signalled: send its length first.

        Raises a `NodeError`; `CommandFailed` when it prints over `MAX_OUTPUT_BYTES`. After a
        `DeadlineExceeded` the program gets SIGTERM and the end of its input; a server that takes
        no signals (OpenSSH for root, or before 7.9) leaves it at the latter.
        Raises ValueError for a NUL byte.
        """

    def follow(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        silence_s: float = 30,
        hold: Hold | None = None,
    ) -> Iterator[bytes]:
        """Yield a program's output lines as they come, without their newlines.

        `DeadlineExceeded` after a silence, `CommandFailed` when it ends with another code than 0
        or a line is over `MAX_OUTPUT_BYTES`. Closing the iterator ends the program, as `run` does
        past its deadline; then it also finds its output closed. `hold` does both from elsewhere:
        more input, and the end.
        """

    def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """Write a file whole or not at all; missing parent directories are made, mode 700.

        `path` is absolute. Raises `CommandFailed` when the node can't write it.
        """

    def retry_now(self) -> None:
        """Let the next call try at once, whatever failed before: a person asked for it."""

    def close(self) -> None:
        """Let go of the connection. A later call opens a new one."""


def check_path(path: str) -> None:
    """Raise ValueError for a path that `put` does not take."""
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ValueError(f"path: {path!r} is not the absolute path of a file")


def first_lines(output: bytes | bytearray | str, lines: int = 3) -> str:
    """The beginning of what a program said, fit for a message: at most 300 characters."""
    start = output[:2000]
    text = start if isinstance(start, str) else bytes(start).decode("utf-8", "replace")
    shown = " / ".join(line.strip() for line in text.strip().splitlines()[:lines])
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)[:300]
