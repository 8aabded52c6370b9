"""The openb workload: pods that ask for parts of GPUs, and the machines to place them on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import gcd
from pathlib import Path

from jobs.rules import MAX_CPUS_PER_TASK, MAX_GPUS_PER_NODE, MAX_MEMORY_MIB
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.simulate.tables import Row, TableError, read_table
from jobs.scheduler.snapshot import Gpu, Node, Pending, Snapshot
from jobs.spec import Resources

MILLI = 1000
"""CPUs and GPUs are counted in thousandths."""
_MOST_CPU_MILLI = MAX_CPUS_PER_TASK * MILLI


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
    """In the order of the file. Raises `TableError`, also where none has GPUs."""
    table = read_table(path)
    table.require("sn", "cpu_milli", "memory_mib", "gpu", "model")
    found = tuple(_machine(row) for row in table.rows)
    if not any(machine.gpus for machine in found):
        raise TableError(f"{table.file}: there is no node with GPUs in it")
    return found


def _machine(row: Row) -> Machine:
    return Machine(
        name=row.word("sn"),
        cpu_milli=row.whole("cpu_milli", most=_MOST_CPU_MILLI),
        memory_mib=row.whole("memory_mib", most=MAX_MEMORY_MIB),
        gpus=row.whole("gpu", most=MAX_GPUS_PER_NODE),
        model=row.text("model"),
    )


def read_pods(path: Path) -> tuple[Pod, ...]:
    """In the order of the file. Raises `TableError`, also where there is none."""
    table = read_table(path)
    table.require("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    if not table.rows:
        raise TableError(f"{table.file}: there are no pods in it")
    return tuple(_pod(row) for row in table.rows)


def _pod(row: Row) -> Pod:
    gpus, gpu_milli = row.whole("num_gpu", most=MAX_GPUS_PER_NODE), row.whole("gpu_milli")
    if gpus and not 1 <= gpu_milli <= MILLI:
        raise row.error("gpu_milli", f"must be from 1 to {MILLI}, not {gpu_milli}")
    if gpus > 1 and gpu_milli < MILLI:
        raise row.error("gpu_milli", f"must be {MILLI} for a pod with {gpus} GPUs")
    spec = row.text("gpu_spec") if "gpu_spec" in row.values else ""
    return Pod(
        name=row.word("name"),
        cpu_milli=row.whole("cpu_milli", most=_MOST_CPU_MILLI),
        memory_mib=row.whole("memory_mib", most=MAX_MEMORY_MIB),
        gpus=gpus,
        gpu_milli=gpu_milli if gpus else 0,
        models=frozenset(filter(None, spec.split("|"))),
    )


PARTITION = "openb"
_ARRIVALS = datetime(2023, 1, 1, tzinfo=UTC)
_POLICY = Policy(order=Order.SUBMISSION, backfill=Backfill.GREEDY)


def allocated(pods: Sequence[Pod], machines: Sequence[Machine]) -> float:
    """The share of all GPUs that a plan gives these pods, taken in their order.

    Of equal nodes the first is taken.
    """
    found = plan(snapshot(pods, machines), _ARRIVALS, explained=False)
    used = sum(pods[start.job_id].gpus * pods[start.job_id].gpu_milli for start in found.starts)
    return used / (MILLI * sum(machine.gpus for machine in machines))


def snapshot(pods: Sequence[Pod], machines: Sequence[Machine]) -> Snapshot:
    """Machines as nodes on which nothing runs, and pods as jobs that came in this order."""
    scale = _Scale.of(pods)
    sets = {pod.models for pod in pods if pod.gpus and pod.models}
    return Snapshot(
        nodes=tuple(
            scale.node(number, machine, sets) for number, machine in enumerate(machines, 1)
        ),
        pending=tuple(
            Pending(
                id=number,
                submitted_at=_ARRIVALS + timedelta(seconds=number),
                resources=scale.resources(pod),
                walltime_s=3600,
                partition=PARTITION,
            )
            for number, pod in enumerate(pods)
        ),
        policy=_POLICY,
    )


@dataclass(frozen=True)
class _Scale:
    """In what units CPUs and parts of GPUs are counted: as coarse as is exact."""

    cpu_milli: int
    gpu_milli: int

    @classmethod
    def of(cls, pods: Sequence[Pod]) -> _Scale:
        cpus = [pod.cpu_milli for pod in pods]
        # Where no unit is exact with so few of them, a request is rounded up.
        coarse = -(-max(cpus, default=1) // MAX_CPUS_PER_TASK)
        exact = gcd(*cpus)
        parts = gcd(MILLI, *(pod.gpu_milli for pod in pods))
        return cls(max(exact, coarse, 1), parts)

    def node(self, number: int, machine: Machine, sets: Collection[frozenset[str]]) -> Node:
        cpus = machine.cpu_milli // self.cpu_milli
        return Node(
            id=number,
            name=f"n{number}",
            partition=PARTITION,
            cpus=cpus,
            memory_mib=machine.memory_mib,
            cpus_free=cpus,
            memory_free_mib=machine.memory_mib,
            gpus=tuple(
                Gpu(f"{number}-{at}", at, machine.model, 0, shards=MILLI // self.gpu_milli)
                for at in range(machine.gpus)
            ),
            features=tuple(sorted(_feature(models) for models in sets if machine.model in models)),
        )

    def resources(self, pod: Pod) -> Resources:
        shared = pod.gpus == 1 and pod.gpu_milli < MILLI
        return Resources(
            gpus_per_node=0 if shared else pod.gpus,
            shards=pod.gpu_milli // self.gpu_milli if shared else 0,
            cpus_per_task=max(1, -(-pod.cpu_milli // self.cpu_milli)),
            memory_mib=pod.memory_mib or None,
            features=(_feature(pod.models),) if pod.gpus and pod.models else (),
        )


def _feature(models: frozenset[str]) -> str:
    """Who may use any of several models asks for a feature that their nodes have."""
    return "any-of-" + "-or-".join(sorted(models))
