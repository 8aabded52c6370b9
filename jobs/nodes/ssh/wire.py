"""One SSH hop as Paramiko sees it, and the little that Paramiko leaves out."""

from __future__ import annotations

import logging
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko
from paramiko.common import (
    MSG_CHANNEL_REQUEST,
    cMSG_CHANNEL_REQUEST,
)

# Paramiko reports every dropped connection with a traceback; ours are the typed errors.
WIRE_LOG = "jobs.nodes.ssh.paramiko"
logging.getLogger(WIRE_LOG).setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class SshAddress:
    """Where to sign in and as whom; `host_key` is the pinned key, `ssh-ed25519 AAAA…`.

    `jump` are the bastions in the order they are passed, each with its own pinned key.
    """

    host: str
    port: int
    user: str
    host_key: str
    jump: tuple[SshAddress, ...] = field(default=())

    @property
    def place(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def login(self) -> str:
        """`user@host:port`, for messages."""
        return f"{self.user}@{self.place}"


class _Packetizer(paramiko.packet.Packetizer):
    """Keeps what a server says before it speaks SSH; Paramiko reads lines at no other time."""

    greeting = ""

    def readline(self, timeout: float) -> str:
        line: str = super().readline(timeout)
        self.greeting += line + "\n"
        return line


class Wire(paramiko.Transport):
    """Paramiko's transport, that also keeps what a server says when it refuses or hangs up."""

    refusal: tuple[int, str] = (0, "")
    """Code and words of the last channel that was not opened."""
    farewell = ""
    """What it said when it hung up."""
    place = ""

    def __init__(self, sock: socket.socket | paramiko.Channel) -> None:
        super().__init__(sock, packetizer_class=_Packetizer)

    @property
    def greeting(self) -> str:
        """All that it said before keys were agreed on; a server of SSH begins with `SSH-`."""
        assert isinstance(self.packetizer, _Packetizer)
        return self.packetizer.greeting

    def _parse_channel_open_failure(self, message: paramiko.Message) -> None:
        copy = paramiko.Message(message.asbytes())
        copy.get_int()
        self.refusal = (copy.get_int(), copy.get_text())
        super()._parse_channel_open_failure(message)  # type: ignore[misc]

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        copy = paramiko.Message(message.asbytes())
        copy.get_int()
        self.farewell = copy.get_text()
        super()._parse_disconnect(message)  # type: ignore[misc]

    def signal(self, channel: paramiko.Channel, name: str) -> None:
        """Ask the server to signal a session's process group (RFC 4254, 6.9)."""
        message = paramiko.Message()
        message.add_byte(cMSG_CHANNEL_REQUEST)
        message.add_int(channel.remote_chanid)
        message.add_string("signal")
        message.add_boolean(False)
        message.add_string(name)
        self._send_user_message(message)  # type: ignore[attr-defined]


def _handle_channel_request(channel: paramiko.Channel, message: paramiko.Message) -> None:
    """Paramiko drops `exit-signal`; a program that was killed shall not look like one that
    merely hung up.
    """
    copy = paramiko.Message(message.asbytes())
    copy.get_int()
    if copy.get_text() == "exit-signal":
        copy.get_boolean()
        number = getattr(signal, "SIG" + copy.get_text(), signal.SIGKILL)
        channel.exit_status = -int(number)
        channel.status_event.set()
        return
    channel._handle_request(message)  # type: ignore[attr-defined]


Wire._channel_handler_table = {  # type: ignore[attr-defined]
    **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
    MSG_CHANNEL_REQUEST: _handle_channel_request,
}


class Deadline:
    """A moment on the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds to go, never negative."""
        return max(0.0, self._end - time.monotonic())


Connect = Callable[[], list[Wire]]
