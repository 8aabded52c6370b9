"""One command on one SSH channel: its process, its streams, its exit status.

It runs as the account that runs the lab, in an environment of the machine's own, and is hung up
when its channel closes. What it leaves behind in a session of its own lives on when the
connection, or even the server, is gone.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import paramiko

from jobs.practice.machines import Machine

_CHUNK = 32768
_LOOK_AGAIN_S = 0.25
_HANGUP_GRACE_S = 5
_NOT_STARTED = 127


def environment(machine: Machine) -> dict[str, str]:
    """What a login on this machine sees; nothing of the portal's own environment gets in."""
    name, _, value = machine.mark.partition("=")
    user = getpass.getuser()
    # Our own interpreter comes before the system's: the sample job needs its numpy.
    path = [str(machine.bin), str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin"]
    return {
        "HOME": str(machine.home),
        "LANG": "C.UTF-8",
        "LOGNAME": user,
        "PATH": os.pathsep.join([*path, "/bin", "/usr/sbin", "/sbin"]),
        "SHELL": "/bin/sh",
        "USER": user,
        name: value,
    }


class Command:
    """`run` returns when the command has ended and everybody who could be told was told."""

    def __init__(self, channel: paramiko.Channel, line: bytes, machine: Machine) -> None:
        self._channel = channel
        self._line = line
        self._machine = machine
        self._ended = threading.Event()

    def run(self) -> None:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self._line],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self._machine.home,
                env=environment(self._machine),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._answer(_NOT_STARTED, f"{error}\n".encode())
            return
        self._carry(process)
        self._ended.set()
        # As a shell tells of a death by signal.
        self._answer(process.returncode if process.returncode >= 0 else 128 - process.returncode)

    def _carry(self, process: subprocess.Popen[bytes]) -> None:
        """Carry the three streams; returns when the process and both its outputs have ended."""
        assert process.stdout is not None and process.stderr is not None
        pumps = [
            threading.Thread(target=self._output, args=arguments, daemon=True)
            for arguments in (
                (process.stdout.fileno(), self._channel.sendall),
                (process.stderr.fileno(), self._channel.sendall_stderr),
            )
        ]
        # Not waited for: it sits in `recv` until the channel closes, which our answer does.
        threading.Thread(target=self._input, args=(process,), daemon=True).start()
        for pump in pumps:
            pump.start()
        process.wait()
        for pump in pumps:
            pump.join()
        process.stdout.close()
        process.stderr.close()

    def _output(self, source: int, send: Callable[[bytes], None]) -> None:
        poll = select.poll()
        poll.register(source, select.POLLIN)
        while not self._channel.closed:
            # A daemon that kept our pipe must not hold this thread once the channel is gone.
            if not poll.poll(_LOOK_AGAIN_S * 1000):
                continue
            data = os.read(source, _CHUNK)
            if not data:
                return
            try:
                send(data)
            except OSError:
                return

    def _input(self, process: subprocess.Popen[bytes]) -> None:
        """Feed the process; when the channel closes before it has ended, hang it up."""
        assert process.stdin is not None
        try:
            while data := self._channel.recv(_CHUNK):
                self._feed(process.stdin.fileno(), data)
        except OSError:
            pass  # the process closed its input; it may well go on without
        process.stdin.close()
        while not self._channel.closed:
            if self._ended.wait(_LOOK_AGAIN_S):
                return
        _signal_group(process.pid, signal.SIGHUP)
        if not self._ended.wait(_HANGUP_GRACE_S):
            _signal_group(process.pid, signal.SIGKILL)

    def _feed(self, target: int, data: bytes) -> None:
        """Write it all, unless the channel closes or the process ends before it has read it."""
        os.set_blocking(target, False)
        poll = select.poll()
        poll.register(target, select.POLLOUT)
        view = memoryview(data)
        while view and not (self._channel.closed or self._ended.is_set()):
            if poll.poll(_LOOK_AGAIN_S * 1000):
                view = view[os.write(target, view) :]

    def _answer(self, exit_code: int, complaint: bytes = b"") -> None:
        try:
            if complaint:
                self._channel.sendall_stderr(complaint)
            self._channel.send_exit_status(exit_code)
            self._channel.close()
        except (OSError, EOFError, paramiko.SSHException):
            pass  # nobody is there to be told


def _signal_group(pid: int, number: signal.Signals) -> None:
    """The command's own session; whatever it put into another one is not meant."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
