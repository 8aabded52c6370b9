"""The practice lab's SSH server: real SSH to machines that share this computer."""

from __future__ import annotations

import getpass
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import paramiko
from paramiko import common

from jobs.practice.commands import Command
from jobs.practice.machines import HOST, Machine

_LOGIN_WITHIN_S = 30


class Listener:
    """One machine's port. `start` returns once it listens; `close` drops its connections."""

    def __init__(self, machine: Machine, authorized_keys: Path) -> None:
        self.machine = machine
        self._authorized_keys = authorized_keys
        self._key = paramiko.Ed25519Key(filename=str(machine.host_key_file))
        self._transports: set[paramiko.Transport] = set()
        self._guard = threading.Lock()
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def start(self) -> None:
        """Raises OSError when the port is taken."""
        try:
            self._socket.bind((HOST, self.machine.port))
        except OSError:
            self._socket.close()
            raise
        self._socket.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        with self._guard:
            open_now = list(self._transports)
        for transport in open_now:
            transport.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # Without it each small answer waits 40 ms for the other side's acknowledgement.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = _Transport(client)
        transport.add_server_key(self._key)
        with self._guard:
            self._transports.add(transport)
        try:
            transport.start_server(server=_Login(self.machine, self._authorized_keys))
            transport.join(_LOGIN_WITHIN_S)
            if transport.is_authenticated():
                transport.join()
        except (paramiko.SSHException, EOFError, OSError):
            pass  # a port scan, or a client that went away: its transport is closed below
        finally:
            transport.close()
            with self._guard:
                self._transports.discard(transport)


class _Login(paramiko.ServerInterface):
    """One connection: the one known key may run commands; all else is refused."""

    def __init__(self, machine: Machine, authorized_keys: Path) -> None:
        self._machine = machine
        self._authorized_keys = authorized_keys
        self._asked_for: Command | None = None

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        # Read anew each time: the portal may write it after we have started.
        try:
            kind, blob = self._authorized_keys.read_text().split()[:2]
        except (OSError, ValueError):
            return common.AUTH_FAILED
        known = (kind, blob) == (key.get_name(), key.get_base64())
        if not known or kind != "ssh-ed25519" or username != getpass.getuser():
            return common.AUTH_FAILED
        return common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if kind == "session":
            return common.OPEN_SUCCEEDED
        return common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._asked_for = Command(channel, command, self._machine)
        return True

    def begin(self) -> None:
        """Start what was asked for last."""
        command, self._asked_for = self._asked_for, None
        if command is not None:
            threading.Thread(target=command.run, daemon=True).start()


def _answer_then_begin(channel: Any, message: paramiko.Message) -> None:
    channel._handle_request(message)
    channel.transport.server_object.begin()


class _Transport(paramiko.Transport):
    """Starts a command after the answer to its request has gone out, and not before.

    Paramiko has no place for that. Else a short command's end could overtake the answer, which
    to the client reads as a channel that closed while it was asking.
    """

    _channel_handler_table: ClassVar[dict[int, Callable[..., None]]] = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        common.MSG_CHANNEL_REQUEST: _answer_then_begin,
    }
