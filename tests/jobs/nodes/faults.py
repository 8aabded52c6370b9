"""Servers that misbehave, and what a call to them must raise."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from jobs.nodes.ssh import (
    SshTransport,
)
from jobs.nodes.transport import (
    NodeError,
)
from tests.lab.sshd import Sshd

HELLO = ["echo", "hello"]


@contextmanager
def listener(answer: bytes | None, *, hang_up: bool = False) -> Iterator[int]:
    """A port where something listens that is no sshd; None: it accepts nothing itself."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(5)
        port = sock.getsockname()[1]
        held = []

        def serve() -> None:
            while True:
                try:
                    peer, _ = sock.accept()
                except OSError:
                    return
                peer.sendall(answer or b"")
                if hang_up:
                    peer.close()
                held.append(peer)

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        yield port
        sock.shutdown(socket.SHUT_RDWR)
        for peer in held:
            peer.close()


def until(condition: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)


def fails(transport: SshTransport, kind: type[NodeError], *words: str) -> NodeError:
    with pytest.raises(NodeError) as caught:
        transport.run(HELLO)
    assert type(caught.value) is kind, caught.value
    for word in words:
        assert word in caught.value.message
    assert caught.value.advice
    transport.close()
    return caught.value


def at(sshd: Sshd, **changes: object) -> SshTransport:
    return SshTransport(replace(sshd.address(), **changes), sshd.client_key, connect_s=1)


def make_host_key(sshd: Sshd, *kind: str) -> str:
    """Give it another key, of this kind; returns what would be pinned."""
    path = sshd.directory / "host_key"
    path.unlink()
    subprocess.run(["ssh-keygen", "-q", *kind, "-N", "", "-f", str(path)], check=True)
    return " ".join(path.with_name("host_key.pub").read_text().split()[:2])
