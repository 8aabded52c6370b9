"""What the practice lab consists of: its machines, their files, keys, ports and boot ids.

Everything lives in one directory:

    lab.json             the ports and the kernel's boot id at the last start
    authorized_keys      the one key that may sign in
    removed              there once the lab was removed in the portal
    shared/              seen by all machines, as a lab's shared home is
    practice-1/          home/, bin/ (the stand-in nvidia-smi), spool/ (boot_id, kmsg), host_key
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import random
import shlex
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from jobs.practice.removal import is_removed, remove, restore

__all__ = [
    "HOST",
    "Machine",
    "PracticeNode",
    "authorize",
    "describe",
    "is_removed",
    "prepare",
    "remove",
    "restore",
    "sample_script",
    "shared",
]

HOST = "127.0.0.1"
# Below the range from which Linux takes ports for outgoing connections, so that none of those
# can sit on a port that we come back to.
PORTS = range(20000, 32000)
GPUS_PER_MACHINE = 4
_SOURCES = Path(__file__).parent
_KERNEL_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Model:
    """A GPU model, as `nvidia-smi` names it; memory in MiB, power limit in watts."""

    name: str
    memory_mib: int
    power_limit_w: int


A100 = Model("NVIDIA A100-SXM4-40GB (simulated)", 40960, 400)
H100 = Model("NVIDIA H100 80GB HBM3 (simulated)", 81559, 700)
MODELS = {"practice-1": A100, "practice-2": A100, "practice-3": H100}


class PracticeNode(NamedTuple):
    """How to reach one machine: `host_key` is a line as in `known_hosts`, without the name."""

    name: str
    host: str
    port: int
    user: str
    host_key: str
    spool: str


@dataclass(frozen=True)
class Machine:
    """One machine of the lab and where its files are."""

    name: str
    directory: Path
    port: int

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def bin(self) -> Path:
        return self.directory / "bin"

    @property
    def spool(self) -> Path:
        return self.directory / "spool"

    @property
    def host_key_file(self) -> Path:
        return self.directory / "host_key"

    @property
    def mark(self) -> str:
        """The environment entry by which this machine's processes are known.

        It does not begin with CARREL_: such ones stay behind when the shepherd starts a job.
        """
        return f"PRACTICE_NODE={self.directory}"

    def renew_boot_id(self) -> None:
        """As after switching a machine off and on: nothing that ran before can run still."""
        _write(self.spool / "boot_id", f"{uuid.uuid4()}\n")


def describe(directory: Path) -> list[PracticeNode]:
    """The lab's nodes. Makes their files when there are none, so it needs no running server."""
    return [
        PracticeNode(
            name=machine.name,
            host=HOST,
            port=machine.port,
            user=getpass.getuser(),
            host_key=_public_line(machine.host_key_file),
            spool=str(machine.spool),
        )
        for machine in prepare(directory)
    ]


def prepare(directory: Path) -> list[Machine]:
    """Make whatever is missing of the lab's files and return its machines. Repeats do nothing."""
    directory = directory.resolve()
    with _locked(directory):
        ports = _ports(directory)
        machines = [Machine(name, directory / name, ports[name]) for name in MODELS]
        examples = shared(directory) / "examples"
        examples.mkdir(parents=True, exist_ok=True)
        _copy(_SOURCES / "train.py", examples / "train.py")
        for machine in machines:
            _prepare_machine(machine, directory)
    return machines


def shared(directory: Path) -> Path:
    """What all machines see; on each it is also `~/shared`."""
    return directory.resolve() / "shared"


def authorize(directory: Path, public_key: str) -> None:
    """Let the holder of this ed25519 key (`ssh-ed25519 AAAA…`) sign in, and nobody else."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(directory / "authorized_keys", public_key.strip() + "\n")


def sample_script(directory: Path, *, seconds: int = 60) -> str:
    """A job script that trains a small model on one GPU for about so many seconds."""
    program = shlex.quote(str(shared(directory) / "examples" / "train.py"))
    return (
        "#!/bin/bash\n"
        "#SBATCH --job-name=spirals\n"
        "#SBATCH --gres=gpu:1\n"
        "#SBATCH --cpus-per-task=1\n"
        "#SBATCH --time=00:10:00\n"
        "\n"
        "# Trains a small network; a checkpoint appears every few seconds.\n"
        f"exec python3 {program} --seconds {seconds}\n"
    )


def gpus(machine: Machine) -> list[dict[str, Any]]:
    """The machine's GPUs as the stand-in `nvidia-smi` reads them; the UUIDs never change."""
    model = MODELS[machine.name]
    return [
        {
            "index": index,
            "uuid": f"GPU-{uuid.uuid5(uuid.NAMESPACE_URL, f'file://{machine.directory}/{index}')}",
            "name": model.name,
            "memory_mib": model.memory_mib,
            "pci_bus_id": f"00000000:{0x07 + 0x08 * index:02X}:00.0",
            "power_limit_w": model.power_limit_w,
        }
        for index in range(GPUS_PER_MACHINE)
    ]


def note_kernel_boot(directory: Path, machines: list[Machine]) -> None:
    """Renew the boot ids when the computer itself was restarted since the lab last ran."""
    directory = directory.resolve()
    now = _KERNEL_BOOT_ID.read_text().strip()
    with _locked(directory):
        kept = _read_lab(directory)
        if kept.get("kernel_boot_id") == now:
            return
        if "kernel_boot_id" in kept:
            for machine in machines:
                machine.renew_boot_id()
        _write(directory / "lab.json", json.dumps(kept | {"kernel_boot_id": now}))


def move(directory: Path, machine: Machine) -> Machine:
    """Give a machine another port, when a stranger sits on its own."""
    directory = directory.resolve()
    with _locked(directory):
        kept = _read_lab(directory)
        port = _free_port(set(kept["ports"].values()))
        kept["ports"][machine.name] = port
        _write(directory / "lab.json", json.dumps(kept))
    return Machine(machine.name, machine.directory, port)


def _prepare_machine(machine: Machine, directory: Path) -> None:
    for place in (machine.home, machine.bin, machine.spool):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (machine.spool / "boot_id").exists():
        machine.renew_boot_id()
    if not machine.host_key_file.exists():
        key = Ed25519PrivateKey.generate()
        text = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
        _write(machine.host_key_file, text)
    link = machine.home / "shared"
    if not link.is_symlink():
        link.symlink_to(shared(directory))
    # Errors of this computer's own GPUs are none of theirs.
    (machine.spool / "kmsg").touch(mode=0o600)
    _copy(_SOURCES / "nvidia_smi.py", machine.bin / "nvidia-smi", mode=0o755)
    settings = json.dumps({"mark": machine.mark, "gpus": gpus(machine)}, indent=1)
    _write(machine.bin / "nvidia-smi.json", settings)


def _public_line(private: Path) -> str:
    key = load_ssh_private_key(private.read_bytes(), password=None)
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _ports(directory: Path) -> dict[str, int]:
    kept = _read_lab(directory)
    ports: dict[str, int] = kept.get("ports", {})
    if set(ports) == set(MODELS):
        return ports
    for name in MODELS:
        ports.setdefault(name, _free_port(set(ports.values())))
    _write(directory / "lab.json", json.dumps(kept | {"ports": ports}))
    return ports


def _free_port(taken: set[int]) -> int:
    for port in random.sample(PORTS, 200):
        if port in taken:
            continue
        with socket.socket() as trial:
            try:
                trial.bind((HOST, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {PORTS.start} and {PORTS.stop} on {HOST}")


def _read_lab(directory: Path) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads((directory / "lab.json").read_text())
    except FileNotFoundError:
        return {}
    return kept


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (directory / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _copy(source: Path, target: Path, *, mode: int = 0o644) -> None:
    _write(target, source.read_text(), mode=mode)


def _write(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write whole or not at all; a file that already says so is left alone."""
    if path.exists() and path.read_text() == text:
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as handle:
        handle.write(text)
    fresh.replace(path)
