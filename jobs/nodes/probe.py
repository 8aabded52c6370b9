"""What a machine is: asked when a node is added, and again whenever somebody wants to know."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import count

from jobs.nodes.answers import BadAnswer, decode
from jobs.nodes.shepherd import Shepherd
from jobs.nodes.topology import nvlink_domains
from jobs.nodes.transport import CommandFailed, Transport

PROBE_S = 60.0
_NOMINAL_GB = re.compile(r"(\d{1,4})gb")


@dataclass(frozen=True)
class MigInstance:
    """A slice of a GPU: `1g.10gb` and the UUID that pins a process to it."""

    name: str
    uuid: str
    memory_mib: int | None = None


@dataclass(frozen=True)
class GpuFacts:
    """One GPU, or one MIG instance with the index of its card. None: the driver does not tell."""

    index: int
    uuid: str
    model: str | None
    memory_mib: int | None
    pci_bus_id: str | None
    mig_mode: bool | None = None
    mig: tuple[MigInstance, ...] = ()
    domain: int | None = None
    """GPUs of a machine with the same number reach each other over NVLink."""


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
    error but one of `problems`. GPUs are told as jobs can have them (`offered`).
    """
    transport.retry_now()
    answer = Shepherd(transport, spool).ask("probe", {}, timeout_s=PROBE_S)
    try:
        return offered(decode(NodeFacts, answer, "probe"))
    except BadAnswer as error:
        raise CommandFailed(f"The node's answer makes no sense: {error}") from error


def offered(facts: NodeFacts) -> NodeFacts:
    """The same machine with its NVLink domains and, in place of GPUs in MIG mode, their instances.

    In MIG mode the card as a whole serves nobody, and no instance reaches another over NVLink.
    """
    domains = nvlink_domains(facts.topology or "")
    alone = count(1 + max(domains.values(), default=-1))
    gpus: list[GpuFacts] = []
    problems = list(facts.problems)
    for card in facts.gpus:
        if card.mig:
            gpus += [_instance(card, part, next(alone)) for part in card.mig]
        elif card.mig_mode:
            problems.append(
                f"GPU {card.index} is in MIG mode and has no instances, so no job can have it: "
                "make some with nvidia-smi mig -cgi, or leave MIG mode"
            )
        else:
            gpus.append(replace(card, domain=domains.get(card.index)))
    return replace(facts, gpus=tuple(gpus), problems=tuple(problems))


def _instance(card: GpuFacts, part: MigInstance, domain: int) -> GpuFacts:
    return GpuFacts(
        index=card.index,
        uuid=part.uuid,
        model=f"{card.model or 'unknown model'} MIG {part.name}",
        memory_mib=part.memory_mib or _nominal_mib(part.name),
        pci_bus_id=card.pci_bus_id,
        mig_mode=True,
        domain=domain,
    )


def _nominal_mib(profile: str) -> int | None:
    """What `1g.10gb` promises, counted in powers of ten: no less than that is there."""
    found = _NOMINAL_GB.search(profile)
    return int(found.group(1)) * 10**9 // 2**20 if found else None
