"""One program over one session channel: its input, its output, its end.

Raw channels only: `SSHClient.exec_command` may send an end of file on a closed channel when its
files are collected, and sshd then drops the whole connection. For the same reason the input's
end is never signalled; the channel is closed once, by the pool.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Iterator, Sequence
from typing import cast

import paramiko

from jobs.nodes.ssh.wire import Deadline, Wire
from jobs.nodes.transport import (
    MAX_OUTPUT_BYTES,
    CommandFailed,
    Completed,
    ConnectionLost,
    DeadlineExceeded,
    Hold,
    Lines,
    first_lines,
)

_CHUNK = 1 << 16
_ALL = 1 << 30


def command_line(argv: Sequence[str]) -> bytes:
    """What the login shell gets. Raises ValueError for no program or a NUL byte."""
    if not argv:
        raise ValueError("argv: names no program")
    if any("\0" in word for word in argv):
        raise ValueError("argv: a NUL byte cannot be passed to a program")
    # `exec` replaces the shell, so that a signal reaches the program itself.
    return ("exec " + shlex.join(argv)).encode("utf-8", "surrogateescape")


class _Answer(threading.Event):
    """Paramiko waits for the answer to an exec request without a limit; this one has one."""

    def __init__(self, limit_s: float) -> None:
        super().__init__()
        self._limit_s = limit_s

    def wait(self, timeout: float | None = None) -> bool:
        """As Event's, but raises TimeoutError at the limit."""
        if not super().wait(self._limit_s if timeout is None else timeout):
            raise TimeoutError
        return True


class _Bell:
    """Rings when either stream has news. Paramiko clears a stream's event when that stream is
    empty, which would lose the other's news: only the reader clears this one.
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """News on a stream."""
        self._event.set()

    def clear(self) -> None:
        """Paramiko found one stream empty."""

    def wait(self, timeout_s: float) -> bool:
        """Whether it rang in time."""
        rang = self._event.wait(timeout_s)
        self._event.clear()
        return rang


class Program:
    """Runs one command on `channel`; `place` names the node in messages."""

    def __init__(self, channel: paramiko.Channel, place: str) -> None:
        self._channel = channel
        self._place = place
        self._bell = _Bell()
        self._bytes = 0
        self._is_let_go = False
        for stream in (channel.in_buffer, channel.in_stderr_buffer):
            stream.set_event(cast(threading.Event, self._bell))

    def complete(self, command: bytes, stdin: bytes, timeout_s: float) -> Completed:
        """Run it to its end. Raises DeadlineExceeded, ConnectionLost or CommandFailed."""
        deadline = Deadline(timeout_s)
        self._start(command, deadline)
        self._send(stdin, deadline)
        stdout, stderr = bytearray(), bytearray()
        try:
            while not self._drain(stdout, stderr):
                if not self._bell.wait(deadline.left):
                    raise DeadlineExceeded(
                        f"{self._place} did not finish within {timeout_s:g} s: {_name(command)}"
                    )
            return Completed(self._exit_code(deadline), bytes(stdout), bytes(stderr))
        except (DeadlineExceeded, CommandFailed):
            self._terminate()
            raise

    def lines(self, command: bytes, stdin: bytes, silence_s: float, hold: Hold) -> Iterator[bytes]:
        """Its output line by line, without the newlines; closing, or `hold`, ends the program."""
        deadline = Deadline(silence_s)
        self._start(command, deadline)
        self._send(stdin, deadline)
        hold.take(self._write, self._let_go)
        lines, stderr = Lines(self._place), bytearray()
        over = False
        try:
            while not over and not self._is_let_go:
                self._bytes = 0
                stdout = bytearray()
                over = self._drain(stdout, stderr)
                hold.heard()
                yield from lines.add(bytes(stdout))
                del stderr[:-4096]
                if not over and not self._bell.wait(silence_s):
                    raise DeadlineExceeded(
                        f"{self._place} said nothing for {silence_s:g} s: {_name(command)}"
                    )
            if over:
                yield from lines.rest()
                self._check_end(command, stderr, Deadline(silence_s))
        finally:
            hold.lose()
            if not over:
                self._terminate()

    def _check_end(self, command: bytes, stderr: bytearray, deadline: Deadline) -> None:
        code = self._exit_code(deadline)
        if code:
            raise CommandFailed(
                f"{self._place}: {_name(command)} ended with {code}: {first_lines(stderr)}"
            )

    def _write(self, data: bytes, timeout_s: float) -> None:
        self._channel.settimeout(timeout_s)
        try:
            self._push(data)
        except (EOFError, paramiko.SSHException) as error:
            raise OSError(str(error)) from error

    def _let_go(self) -> None:
        self._is_let_go = True
        self._bell.set()

    def _start(self, command: bytes, deadline: Deadline) -> None:
        channel = self._channel
        channel.event = _Answer(max(deadline.left, 0.001))
        try:
            channel.exec_command(command)  # each word quoted  # nosec B601
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"{self._place} did not start the program within {deadline.seconds:g} s"
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            wire = channel.get_transport()
            if wire is None or not wire.is_active() or not channel.eof_sent:
                raise ConnectionLost(f"{self._place}: the connection broke: {error}") from error
            raise CommandFailed(f"{self._place}: sshd refuses to run a command.") from error

    def _send(self, stdin: bytes, deadline: Deadline) -> None:
        """Small input at once; more of it beside reading, as the program may answer meanwhile."""
        self._channel.settimeout(max(deadline.left, 0.001))
        if len(stdin) <= min(_CHUNK // 2, self._channel.out_window_size):
            self._send_all(stdin)
        else:
            threading.Thread(target=self._send_all, args=(stdin,), daemon=True).start()

    def _send_all(self, stdin: bytes) -> None:
        # It may not want it all; else the reader sees what happened.
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._push(stdin)

    def _push(self, data: bytes) -> None:
        view, at = memoryview(data), 0
        while at < len(view):
            at += self._channel.send(bytes(view[at : at + _CHUNK]))

    def _drain(self, stdout: bytearray, stderr: bytearray) -> bool:
        """Take what has come; True when no more will."""
        channel = self._channel
        over = bool(channel.eof_received or channel.closed)
        while channel.recv_ready():
            self._take(stdout, channel.recv(_ALL))
        while channel.recv_stderr_ready():
            self._take(stderr, channel.recv_stderr(_ALL))
        return over

    def _take(self, into: bytearray, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > MAX_OUTPUT_BYTES:
            raise CommandFailed(f"{self._place} sent over {MAX_OUTPUT_BYTES} bytes of output")
        into += data

    def _exit_code(self, deadline: Deadline) -> int:
        channel = self._channel
        if not channel.status_event.wait(deadline.left):
            raise DeadlineExceeded(f"{self._place} closed its output but did not end in time")
        if channel.exit_status == -1 and not channel.eof_sent:
            # Closed by no message of the server: the connection went.
            raise ConnectionLost(f"{self._place}: the connection broke while a program ran")
        return channel.exit_status

    def _terminate(self) -> None:
        wire = self._channel.get_transport()
        if isinstance(wire, Wire) and not self._channel.closed:
            # A connection that is gone took the program's output with it: SIGPIPE ends it.
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                wire.signal(self._channel, "TERM")


def _name(command: bytes) -> str:
    """The program, without its arguments: they may be long."""
    words = shlex.split(command.decode("utf-8", "replace"))
    return words[1] if len(words) > 1 else ""
