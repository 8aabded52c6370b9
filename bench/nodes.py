"""Nodes on this machine: one real OpenSSH server each, with its own home, spool and GPUs.

The GPUs are simulated by the practice lab's stand-in for `nvidia-smi`; the rest is real.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import paramiko

from jobs.practice import nvidia_smi
from tests.lab.sshd import SSHD, Sshd

MARK = "BENCH_NODE"
PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")


@dataclass(frozen=True)
class SshNode:
    """What a portal has to know to make it a node."""

    name: str
    port: int
    login: str
    host_key: str


@contextmanager
def ssh_nodes(
    directory: Path, count: int, gpus: int, key: paramiko.PKey
) -> Iterator[list[SshNode]]:
    """Start so many servers, which the holder of `key` may enter; end them and all they ran."""
    with ExitStack() as stack:
        stack.callback(_end_processes, directory)
        found = []
        for number in range(1, count + 1):
            name = f"bench-{number:02}"
            options = _machine(directory / name, gpus)
            server = stack.enter_context(
                Sshd(directory / name / "sshd", client_key=key, options=options)
            )
            found.append(SshNode(name, server.port, server.user, server.host_key))
        yield found


def version() -> str:
    """As in "OpenSSH_9.2p1"."""
    told = subprocess.run([SSHD, "-V"], capture_output=True, text=True, check=False).stderr
    return next((word.rstrip(",") for word in told.split() if word.startswith("OpenSSH")), "?")


def _machine(directory: Path, gpus: int) -> tuple[str, ...]:
    """Its files, and what its sshd gives every session as environment."""
    home, programs = directory / "home", directory / "bin"
    for place in (home, programs):
        place.mkdir(parents=True)
    shutil.copy(nvidia_smi.__file__, programs / "nvidia-smi")
    (programs / "nvidia-smi").chmod(0o755)
    pretended = [
        {
            "index": index,
            "uuid": f"GPU-{uuid.uuid4()}",
            "name": "NVIDIA A100-SXM4-40GB (simulated)",
            "memory_mib": 40960,
            "pci_bus_id": f"00000000:{0x07 + 8 * index:02X}:00.0",
        }
        for index in range(gpus)
    ]
    settings = {"mark": f"{MARK}={directory}", "gpus": pretended}
    (programs / "nvidia-smi.json").write_text(json.dumps(settings))
    path = os.pathsep.join([str(programs), *PATH])
    return (f"SetEnv PATH={path} HOME={home} {MARK}={directory}",)


def _end_processes(directory: Path) -> None:
    """Shepherds outlive their connection; those of our nodes end with them."""
    mark = f"{MARK}={directory}".encode()
    for _ in range(20):
        found = False
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes():
                    os.kill(int(process.name), 9)
                    found = True
            except OSError:
                continue
        if not found:
            return
