"""The openb workload: pods that ask for parts of GPUs, and the machines to place them on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jobs.scheduler.simulate.tables import Row, read_table

MILLI = 1000
"""CPUs and GPUs are counted in thousandths."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One node."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class Pod:
    """What one pod asks for: some whole GPUs, a part of one, or none."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    """Of each; below 1000 it shares one GPU."""
    models: frozenset[str] = frozenset()
    """Those that will do; empty: any."""


def read_machines(path: Path) -> tuple[Machine, ...]:
    """In the order of the file. Raises `TableError`."""
    table = read_table(path)
    table.require("sn", "cpu_milli", "memory_mib", "gpu", "model")
    return tuple(_machine(row) for row in table.rows)


def _machine(row: Row) -> Machine:
    return Machine(
        row.word("sn"), row.whole("cpu_milli"), row.whole("memory_mib"), row.whole("gpu"),
        row.text("model"),
    )  # fmt: skip


def read_pods(path: Path) -> tuple[Pod, ...]:
    """In the order of the file. Raises `TableError`."""
    table = read_table(path)
    table.require("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    return tuple(_pod(row) for row in table.rows)


def _pod(row: Row) -> Pod:
    gpus, gpu_milli = row.whole("num_gpu"), row.whole("gpu_milli")
    if gpus and not 1 <= gpu_milli <= MILLI:
        raise row.error("gpu_milli", f"must be from 1 to {MILLI}, not {gpu_milli}")
    if gpus > 1 and gpu_milli < MILLI:
        raise row.error("gpu_milli", f"must be {MILLI} for a pod with {gpus} GPUs")
    spec = row.text("gpu_spec") if "gpu_spec" in row.values else ""
    return Pod(
        name=row.word("name"),
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
        gpus=gpus,
        gpu_milli=gpu_milli if gpus else 0,
        models=frozenset(filter(None, spec.split("|"))),
    )
