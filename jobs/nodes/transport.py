"""The way to a node: run a program there, follow one, put a file. A small protocol.

`ssh.py`, `local.py` and `memory.py` implement it under one contract test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol


@dataclass(frozen=True)
class Completed:
    """What a program on a node left behind."""

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


class Transport(Protocol):
    """A login on one node. Safe to use from several threads."""

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30) -> Completed:
        """Run a program to its end. The input's end is not signalled: send its length first."""

    def follow(self, argv: Sequence[str], *, silence_s: float = 30) -> Iterator[bytes]:
        """Yield a program's output lines as they come; `DeadlineExceeded` after a silence.

        Closing the iterator ends the program.
        """

    def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """Write a file whole or not at all; missing parent directories are made, mode 700."""

    def close(self) -> None:
        """Let go of the connection. A later call opens a new one."""
