"""The environment that a job sees: Slurm's variables, torch's, and Carrel's own.

Every task of a node sees all GPUs that the job has on that node, as it would under Slurm with
`--gres`: a task takes its own by LOCAL_RANK. Where the job has no GPU, CUDA_VISIBLE_DEVICES is
set and empty, so that it sees none. What a person gave never wins over what Carrel sets
(`jobs.rules.is_set_by_carrel`); `JobSpec` refuses it in the first place. What only the node knows,
SLURM_SUBMIT_DIR among it, is set by the shepherd (`jobs/shepherd/tasks.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.rules import PATTERN_LETTERS
from jobs.spec import JobSpec

_PATTERN = re.compile(r"%(\d{0,2})([" + PATTERN_LETTERS + "%])", re.ASCII)
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})\Z", re.DOTALL)
_UNSAFE = re.compile(r"[/\\\x00-\x1f\x7f]")


@dataclass(frozen=True)
class GpuShare:
    """Part of a GPU that others share: `shards` of the `of` equal parts it is divided into."""

    shards: int
    of: int
    memory_mib: int
    """Of the whole GPU."""
    mps: bool = False
    """CUDA's Multi-Process Service shares it, and keeps each to its part."""


@dataclass(frozen=True)
class NodePart:
    """What the job has on one node. `name` is the node's name, as others reach it."""

    name: str
    gpu_uuids: tuple[str, ...] = ()
    gpu_indices: tuple[int, ...] = ()
    """Of the same GPUs, as the node's nvidia-smi counts them."""
    cpus: int = 1
    share: GpuShare | None = None
    """None: whole GPUs, or none."""


@dataclass(frozen=True)
class Attempt:
    """One try at running a job: all that its environment is made of."""

    job_id: int
    spec: JobSpec
    nodes: tuple[NodePart, ...]
    """In rank order."""
    account: str
    """The Unix account on the nodes."""
    project: str
    partition: str
    """Where it was put, be it asked for or not."""
    master_addr: str
    """Where rank 0 can be reached from all the nodes: a name or an address."""
    master_port: int
    ends_by: datetime
    """Its start plus its walltime."""
    checkpoint_dir: str
    resume_from: str | None = None
    """The checkpoint to go on from, if there is one."""
    checkpoint_interval_s: int | None = None
    """From one checkpoint to the next, where it is known how long writing one takes."""
    restarts: int = 0
    array_id: int | None = None
    """The number that all tasks of its array have in common."""
    array_index: int | None = None
    array_indices: tuple[int, ...] = ()
    """Of the whole array, ascending, where known."""


def of_node(attempt: Attempt, rank: int) -> dict[str, str]:
    """The variables that all tasks on the node of this rank (from 0) have in common."""
    part = attempt.nodes[rank]
    return (
        dict(attempt.spec.environment)
        | _slurm(attempt)
        | _slurm_array(attempt)
        | _slurm_node(attempt, rank)
        | {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(part.gpu_uuids),
            "MASTER_ADDR": attempt.master_addr,
            "MASTER_PORT": str(attempt.master_port),
            "WORLD_SIZE": str(_tasks(attempt)),
        }
        | _carrel(attempt)
        | _share(part.share)
    )


def of_tasks(attempt: Attempt, rank: int) -> tuple[dict[str, str], ...]:
    """What each task on the node of this rank has of its own, by local rank."""
    per_node = attempt.spec.resources.tasks_per_node
    return tuple(
        {
            "RANK": str(rank * per_node + local),
            "LOCAL_RANK": str(local),
            "SLURM_PROCID": str(rank * per_node + local),
            "SLURM_LOCALID": str(local),
        }
        for local in range(per_node)
    )


def _tasks(attempt: Attempt) -> int:
    return len(attempt.nodes) * attempt.spec.resources.tasks_per_node


def _slurm(attempt: Attempt) -> dict[str, str]:
    spec, asked = attempt.spec, attempt.spec.resources
    nodes, tasks = str(len(attempt.nodes)), str(_tasks(attempt))
    names = node_list(part.name for part in attempt.nodes)
    found = {
        "SLURM_JOB_ID": str(attempt.job_id),
        "SLURM_JOBID": str(attempt.job_id),
        "SLURM_JOB_NAME": spec.name,
        "SLURM_JOB_USER": attempt.account,
        "SLURM_JOB_ACCOUNT": attempt.project,
        "SLURM_JOB_PARTITION": attempt.partition,
        "SLURM_JOB_NODELIST": names,
        "SLURM_NODELIST": names,
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": str(asked.tasks_per_node),
        "SLURM_TASKS_PER_NODE": _repeated(asked.tasks_per_node for _ in attempt.nodes),
        "SLURM_CPUS_PER_TASK": str(asked.cpus_per_task),
        "SLURM_JOB_CPUS_PER_NODE": _repeated(part.cpus for part in attempt.nodes),
        "SLURM_RESTART_COUNT": str(attempt.restarts),
        "SLURM_JOB_END_TIME": str(int(attempt.ends_by.timestamp())),
    }
    if asked.memory_mib is not None:
        found["SLURM_MEM_PER_NODE"] = str(asked.memory_mib)
    return found


def _slurm_array(attempt: Attempt) -> dict[str, str]:
    if attempt.array_id is None or attempt.array_index is None:
        return {}
    found = {
        "SLURM_ARRAY_JOB_ID": str(attempt.array_id),
        "SLURM_ARRAY_TASK_ID": str(attempt.array_index),
    }
    if indices := attempt.array_indices:
        found["SLURM_ARRAY_TASK_COUNT"] = str(len(indices))
        found["SLURM_ARRAY_TASK_MIN"] = str(indices[0])
        found["SLURM_ARRAY_TASK_MAX"] = str(indices[-1])
    return found


def _slurm_node(attempt: Attempt, rank: int) -> dict[str, str]:
    part = attempt.nodes[rank]
    found = {
        "SLURM_NODEID": str(rank),
        "SLURMD_NODENAME": part.name,
        "SLURM_CPUS_ON_NODE": str(part.cpus),
        "SLURM_GPUS_ON_NODE": str(len(part.gpu_uuids)),
    }
    if part.gpu_indices:
        found["SLURM_JOB_GPUS"] = ",".join(map(str, part.gpu_indices))
    return found


def _carrel(attempt: Attempt) -> dict[str, str]:
    found = {
        "CARREL_JOB_ID": str(attempt.job_id),
        "CARREL_CHECKPOINT_DIR": attempt.checkpoint_dir,
    }
    if attempt.resume_from:
        found["CARREL_RESUME_FROM"] = attempt.resume_from
    if attempt.checkpoint_interval_s is not None:
        found["CARREL_CHECKPOINT_INTERVAL"] = str(attempt.checkpoint_interval_s)
    return found


def _share(share: GpuShare | None) -> dict[str, str]:
    """How much of its GPU the job may use. By time slices nothing holds it to that but itself."""
    if share is None:
        return {}
    memory_mib = share.memory_mib * share.shards // share.of
    found = {
        "SLURM_SHARDS_ON_NODE": str(share.shards),
        "CARREL_GPU_SHARE": f"{share.shards}/{share.of}",
        "CARREL_GPU_MEMORY_MIB": str(memory_mib),
    }
    if share.mps:
        # The GPU that a job sees is its number 0, whatever the node calls it.
        found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={memory_mib}M"
        found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = f"{100 * share.shards / share.of:.4g}"
    return found


def _repeated(numbers: Iterable[int]) -> str:
    """Slurm's short form of a number per node: `8(x2),4`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][0] == number:
            runs[-1] = (number, runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return ",".join(f"{number}(x{times})" if times > 1 else f"{number}" for number, times in runs)


def node_list(names: Iterable[str]) -> str:
    """Slurm's short form of node names, in rank order: `n[1-3,7],login`."""
    groups: list[tuple[str, list[str]]] = []
    for name in names:
        found = _NUMBERED.match(name)
        prefix, number = found.groups() if found else (name, "")
        if number and groups and groups[-1][0] == prefix and groups[-1][1][-1]:
            groups[-1][1].append(number)
        else:
            groups.append((prefix, [number]))
    return ",".join(
        f"{prefix}{numbers[0]}" if len(numbers) == 1 else f"{prefix}[{_ranges(numbers)}]"
        for prefix, numbers in groups
    )


def _ranges(numbers: Sequence[str]) -> str:
    """`1-3,7` of 1, 2, 3, 7; numbers of different width (with zeros in front) stay apart."""
    runs: list[list[str]] = []
    for number in numbers:
        last = runs[-1][-1] if runs else None
        follows = last is not None and str(int(last) + 1).zfill(len(runs[-1][0])) == number
        if follows:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def expand(pattern: str, attempt: Attempt, rank: int) -> str:
    """The file name that a pattern stands for on the node of this rank.

    %j job, %A array (or job), %a index in the array (0 without one), %x job's name, %u account,
    %N node's name, %n node's rank, %t rank of the node's first task, %% a percent sign. A width
    fills numbers with zeros: `%4a`. Names can't leave the directory: `/` becomes `_` in them.
    """
    numbers = {
        "j": attempt.job_id,
        "A": attempt.array_id if attempt.array_id is not None else attempt.job_id,
        "a": attempt.array_index or 0,
        "n": rank,
        "t": rank * attempt.spec.resources.tasks_per_node,
    }
    names = {
        "x": _file_name(attempt.spec.name),
        "u": _file_name(attempt.account),
        "N": _file_name(attempt.nodes[rank].name),
        "%": "%",
    }
    return _PATTERN.sub(_filler(numbers, names), pattern)


def _filler(numbers: dict[str, int], names: dict[str, str]) -> Callable[[re.Match[str]], str]:
    def fill(found: re.Match[str]) -> str:
        width, letter = found.groups()
        if letter in names:
            return names[letter]
        return str(numbers[letter]).zfill(int(width or 0))

    return fill


def _file_name(text: str) -> str:
    safe = _UNSAFE.sub("_", text)
    return safe.replace(".", "_") if safe in {".", ".."} else safe
