"""One part as a running process: started, read, ended, and started again with back-off."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping

from portal.supervisor.parts import ROOT, Part

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0
STEADY_S = 30.0
"""Whoever ran for so long starts again after the shortest pause."""
_CHUNK = 65536
_AT_ONCE = 16 * _CHUNK
_LONGEST_LINE = 8192
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent(number: signal.Signals, parent: int) -> None:
    """Ask the kernel to signal this process when its parent `parent` dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


class Child:
    """A part's process, if it runs; `restart_at` is when a dead one is due (monotonic).

    `exit_code` is the last one's, `told` its standard output when that was kept apart.
    """

    def __init__(self, part: Part, environment: Mapping[str, str], *, stdout: int) -> None:
        """`stdout`: `subprocess.STDOUT` joins it to the log, `subprocess.PIPE` keeps it apart."""
        self.part = part
        self.process: subprocess.Popen[bytes] | None = None
        self.restart_at: float | None = None
        self.exit_code: int | None = None
        self.told = b""
        self._environment = environment
        self._apart = stdout == subprocess.PIPE
        self._pause_s = FIRST_PAUSE_S
        self._started_at = 0.0
        self._rest = b""

    @property
    def log(self) -> int:
        """The descriptor its log lines come from; -1 while it does not run."""
        if self.process is None:
            return -1
        stream = self.process.stderr if self._apart else self.process.stdout
        assert stream is not None
        return stream.fileno()

    def start(self) -> None:
        us = os.getpid()
        self.restart_at = None
        self._started_at = time.monotonic()
        self.process = subprocess.Popen(
            self.part.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if self._apart else subprocess.STDOUT,
            cwd=ROOT,
            env=self._environment,
            umask=self.part.umask,
            # A Ctrl-C on the terminal is for us alone: we end the parts in their order.
            start_new_session=True,
            # Safe: the supervisor has one thread.
            preexec_fn=lambda: end_with_parent(self.part.orphaned, us),
        )
        os.set_blocking(self.log, False)

    def read_lines(self) -> list[str]:
        """The whole log lines that are there by now."""
        data, more = b"", b"-"
        with contextlib.suppress(BlockingIOError):
            while more and len(data) < _AT_ONCE:
                more = os.read(self.log, _CHUNK)
                data += more
            if not more and self._rest + data:
                data += b"\n"  # the end, in the middle of a line
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        return [line.decode(errors="replace").rstrip() for line in lines]

    def forget(self) -> None:
        """Close a dead process' pipes, and keep its exit code and what it told."""
        assert self.process is not None
        self.exit_code = self.process.returncode
        if self._apart and self.process.stdout is not None:
            self.told = self.process.stdout.read()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process = None
        self._rest = b""

    def plan_restart(self, now: float) -> float:
        """Set `restart_at`; returns the pause in seconds."""
        if now - self._started_at > STEADY_S:
            self._pause_s = FIRST_PAUSE_S
        pause = self._pause_s
        self._pause_s = min(2 * pause, LONGEST_PAUSE_S)
        self.restart_at = now + pause
        return pause

    def signal(self, number: signal.Signals) -> None:
        """To the process; SIGKILL to all of its session."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)
