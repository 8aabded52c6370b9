"""What a machine is: asked when a node is added, and again whenever somebody wants to know."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.nodes.answers import BadAnswer, decode
from jobs.nodes.shepherd import Shepherd
from jobs.nodes.transport import CommandFailed, Transport

PROBE_S = 60.0


@dataclass(frozen=True)
class MigInstance:
    """A slice of a GPU: `1g.10gb` and the UUID that pins a process to it."""

    name: str
    uuid: str


@dataclass(frozen=True)
class GpuFacts:
    """One GPU. None: the driver does not tell."""

    index: int
    uuid: str
    model: str | None
    memory_mib: int | None
    pci_bus_id: str | None
    mig_mode: bool | None = None
    mig: tuple[MigInstance, ...] = ()


@dataclass(frozen=True)
class NodeFacts:
    """A machine as it described itself. Without GPUs it is a node all the same."""

    hostname: str
    python: str
    cpus: int
    """Usable by the account."""
    memory_mib: int | None
    os: str
    kernel: str
    user: str | None
    home: str
    boot_id: str
    driver: str | None = None
    topology: str | None = None
    """The matrix of `nvidia-smi topo -m`."""
    gpus: tuple[GpuFacts, ...] = ()
    problems: tuple[str, ...] = ()
    """In plain words, what could not be found out, as `no nvidia-smi on the PATH: …`."""


def probe(transport: Transport, spool: str) -> NodeFacts:
    """Ask a node what it is, at once, even while its connection backs off.

    Raises a `NodeError`, whose `advice` says what a person can do. A missing `nvidia-smi` is no
    error but one of `problems`.
    """
    transport.retry_now()
    answer = Shepherd(transport, spool).ask("probe", {}, timeout_s=PROBE_S)
    try:
        return decode(NodeFacts, answer, "probe")
    except BadAnswer as error:
        raise CommandFailed(f"The node's answer makes no sense: {error}") from error
