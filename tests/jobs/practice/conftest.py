"""A practice lab that really runs, and a client that may sign in."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from jobs.practice import machines, processes
from jobs.practice.machines import PracticeNode

ROOT = Path(__file__).resolve().parents[3]


def new_key() -> paramiko.Ed25519Key:
    private = Ed25519PrivateKey.generate()
    text = private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    return paramiko.Ed25519Key(file_obj=io.StringIO(text))


def until(condition: Callable[[], object], within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@dataclass
class Lab:
    directory: Path
    key: paramiko.Ed25519Key
    server: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Returns once all machines listen."""
        self.server = subprocess.Popen(
            [sys.executable, "-m", "jobs.practice", str(self.directory)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.server.stdout is not None
        for line in self.server.stdout:
            if line.startswith("simulated GPUs"):
                return
        raise AssertionError("the practice lab did not start")

    def end(self, number: signal.Signals) -> int:
        assert self.server is not None and self.server.stdout is not None
        self.server.send_signal(number)
        code = self.server.wait(timeout=30)
        self.server.stdout.close()
        self.server = None
        return code

    @property
    def node(self) -> PracticeNode:
        return machines.describe(self.directory)[0]

    def boot_id(self) -> str:
        return (Path(self.node.spool) / "boot_id").read_text()

    def connect(
        self, key: paramiko.PKey | None = None, user: str | None = None
    ) -> paramiko.Transport:
        transport = paramiko.Transport((self.node.host, self.node.port))
        transport.connect(username=user or self.node.user, pkey=key or self.key)
        return transport


@contextmanager
def started(directory: Path) -> Iterator[Lab]:
    lab = Lab(directory, new_key())
    machines.authorize(lab.directory, f"ssh-ed25519 {lab.key.get_base64()}")
    lab.start()
    yield lab
    if lab.server:
        lab.end(signal.SIGTERM)
    for machine in machines.prepare(lab.directory):
        for pid in processes.of_machine(machine.mark):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def own_lab(tmp_path: Path) -> Iterator[Lab]:
    """For a test that stops it, or leaves something running on it."""
    with started(tmp_path / "lab") as lab:
        yield lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """For all others of a module."""
    with started(tmp_path_factory.mktemp("practice") / "lab") as lab:
        yield lab


@pytest.fixture
def connection(lab: Lab) -> Iterator[paramiko.Transport]:
    transport = lab.connect()
    yield transport
    transport.close()


def execute(
    transport: paramiko.Transport, command: str | bytes, stdin: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Exit code, standard output and standard error of one command."""
    channel = transport.open_session(timeout=10)
    channel.settimeout(30)
    channel.exec_command(command)
    if stdin:
        channel.sendall(stdin)
    out, err = channel.makefile("rb").read(), channel.makefile_stderr("rb").read()
    code = channel.recv_exit_status()
    channel.close()
    return code, out, err
