"""What a person asks for: a job's specification, frozen and validated.

Nothing here touches a database, a clock or a network. A `JobSpec` that exists is valid in
itself; whether a lab can run it is the scheduler's question (`jobs.scheduler.fit`).
Every dataclass raises `SpecError` for the first thing wrong with it; the error's `field` is the
name that the web form uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from jobs import rules
from jobs.bands import Band
from jobs.rules import MAX_NAME_CHARS, MAX_SCRIPT_BYTES, SpecError

__all__ = [
    "MAX_NAME_CHARS",
    "MAX_SCRIPT_BYTES",
    "Array",
    "Dependency",
    "DependencyKind",
    "JobSpec",
    "Resources",
    "SpecError",
    "WarningSignal",
]


class DependencyKind(StrEnum):
    """Slurm's words: when the other job ended well, at all, or badly."""

    AFTER_OK = "afterok"
    AFTER_ANY = "afterany"
    AFTER_NOT_OK = "afternotok"
    SINGLETON = "singleton"


@dataclass(frozen=True)
class Dependency:
    """Wait for `job_id` (None for `singleton`: all my earlier jobs of the same name)."""

    kind: DependencyKind
    job_id: int | None = None

    def __post_init__(self) -> None:
        if self.kind is DependencyKind.SINGLETON:
            if self.job_id is not None:
                raise SpecError("dependency", "singleton takes no job number")
        elif self.job_id is None:
            raise SpecError("dependency", f"{self.kind} needs a job number, as in {self.kind}:17")
        else:
            rules.check_count("dependency", self.job_id, 1, 2**63 - 1)


@dataclass(frozen=True)
class Array:
    """Indices of a job array, ascending, and how many may run at once (None: no limit)."""

    indices: tuple[int, ...]
    limit: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.indices) <= rules.MAX_ARRAY_TASKS:
            raise SpecError("array", f"must have 1 to {rules.MAX_ARRAY_TASKS:,} tasks")
        for index in self.indices:
            rules.check_count("array", index, 0, rules.MAX_ARRAY_INDEX)
        if any(b <= a for a, b in zip(self.indices, self.indices[1:], strict=False)):
            raise SpecError("array", "indices must ascend and none may come twice")
        if self.limit is not None:
            rules.check_count("array", self.limit, 1, rules.MAX_ARRAY_TASKS)


@dataclass(frozen=True)
class WarningSignal:
    """Send signal `number` this many seconds before the walltime ends."""

    number: int
    before_s: int

    def __post_init__(self) -> None:
        rules.check_count("signal", self.number, 1, rules.MAX_SIGNAL)
        rules.check_count("signal", self.before_s, 0, rules.MAX_WARNING_S)


@dataclass(frozen=True)
class Resources:
    """What each node of the job must give; all nodes of a gang give the same."""

    nodes: int = 1
    gpus_per_node: int = 0
    gpu_model: str | None = None
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    memory_mib: int | None = None
    """Per node; None asks for no limit and accounts for nothing."""
    exclusive: bool = False
    """Whole nodes: nothing else runs there, and all their CPUs and GPUs are the job's."""
    features: tuple[str, ...] = ()
    """Node features or GPU models, all of which a node must have (`--constraint a&b`)."""
    only_nodes: tuple[str, ...] = ()
    not_nodes: tuple[str, ...] = ()
    shards: int = 0
    """Parts of one shared GPU per node, in place of whole GPUs."""
    max_switches: int | None = None
    """A gang's nodes hang on so many leaf switches at most."""

    def __post_init__(self) -> None:
        rules.check_count("nodes", self.nodes, 1, rules.MAX_NODES)
        rules.check_count("gpus_per_node", self.gpus_per_node, 0, rules.MAX_GPUS_PER_NODE)
        rules.check_count("tasks_per_node", self.tasks_per_node, 1, rules.MAX_TASKS_PER_NODE)
        rules.check_count("cpus_per_task", self.cpus_per_task, 1, rules.MAX_CPUS_PER_TASK)
        rules.check_count("shards", self.shards, 0, rules.MAX_SHARDS)
        if self.shards and self.gpus_per_node:
            raise SpecError("shards", "asks for parts of a GPU and for whole GPUs; ask for one")
        if self.max_switches is not None:
            rules.check_count("switches", self.max_switches, 1, rules.MAX_NODES)
        if self.memory_mib is not None:
            rules.check_count("memory", self.memory_mib, 1, rules.MAX_MEMORY_MIB)
        if self.gpu_model is not None:
            rules.check_words("gpu_model", (self.gpu_model,))
        rules.check_words("features", self.features)
        rules.check_words("only_nodes", self.only_nodes)
        rules.check_words("not_nodes", self.not_nodes)
        if len(set(self.only_nodes)) < len(self.only_nodes):
            raise SpecError("only_nodes", "names a node twice; name each once")
        if self.only_nodes and len(self.only_nodes) < self.nodes:
            raise SpecError(
                "nodes",
                f"asks for {self.nodes} nodes but allows only {len(self.only_nodes)} "
                f"({', '.join(self.only_nodes)[:200]}); name more nodes or ask for fewer",
            )

    @property
    def cpus(self) -> int:
        """CPUs per node."""
        return self.tasks_per_node * self.cpus_per_task

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True)
class Keep:
    """Which of its checkpoints a job wants kept: what any of these names."""

    last: int = 1
    """So many, the newest."""
    every: int | None = None
    """Those whose step is a multiple of this."""

    def __post_init__(self) -> None:
        rules.check_count("keep-checkpoints", self.last, 1, rules.MAX_KEPT)
        if self.every is not None:
            rules.check_count("keep-checkpoints", self.every, 1, rules.MAX_STEP)


@dataclass(frozen=True)
class JobSpec:
    """One request. The script runs once per task, on every node of the job.

    It is run by the interpreter that its first line names (`#!`), else by /bin/bash.
    """

    name: str
    script: str
    resources: Resources = field(default_factory=Resources)
    walltime_s: int = 3600
    project: str | None = None
    partition: str | None = None
    workdir: str = ""
    """Where the job starts, on the node; empty for the account's home."""
    environment: tuple[tuple[str, str], ...] = ()
    array: Array | None = None
    dependencies: tuple[Dependency, ...] = ()
    begin_at: datetime | None = None
    deadline_at: datetime | None = None
    held: bool = False
    stdout: str | None = None
    """File name pattern as in Slurm (%j, %A, %a, %x, %u, %N, %n); None keeps the log in Carrel."""
    stderr: str | None = None
    warning: WarningSignal | None = None
    band: Band | None = None
    """None: the partition's usual one."""
    nice: int = 0
    """Points off its priority; a negative one, which brings some, is an admin's right."""
    keep_checkpoints: Keep | None = None
    """None: all."""
    requeue: bool | None = None
    """Whether it is started again when it is pushed aside or its node fails; None: as usual."""

    def __post_init__(self) -> None:
        rules.check_name(self.name)
        rules.check_script(self.script)
        rules.check_count("walltime", self.walltime_s, 1, rules.MAX_WALLTIME_S)
        for field_name, value in (("project", self.project), ("partition", self.partition)):
            if value is not None:
                rules.check_line(field_name, value, rules.MAX_NAME_CHARS)
                if not value.strip():
                    raise SpecError(field_name, "must not be blank")
        rules.check_workdir(self.workdir)
        rules.check_environment(self.environment)
        if len(self.dependencies) > rules.MAX_DEPENDENCIES:
            raise SpecError("dependency", f"may name at most {rules.MAX_DEPENDENCIES:,} jobs")
        rules.check_times(self.begin_at, self.deadline_at, self.walltime_s)
        rules.check_pattern("stdout", self.stdout)
        rules.check_pattern("stderr", self.stderr)
        rules.check_count("nice", self.nice, -rules.MAX_NICE, rules.MAX_NICE)
