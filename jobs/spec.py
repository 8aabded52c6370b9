"""What a person asks for: a job's specification, frozen and validated.

Nothing here touches a database, a clock or a network. A `JobSpec` that exists is valid in
itself; whether a lab can run it is the scheduler's question (`jobs.scheduler.fit`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

MAX_SCRIPT_BYTES = 1_000_000
MAX_NAME_CHARS = 200
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class SpecError(ValueError):
    """One thing wrong with a request: which field, and what would be right."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


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


@dataclass(frozen=True)
class Array:
    """Indices of a job array, ascending, and how many may run at once (None: no limit)."""

    indices: tuple[int, ...]
    limit: int | None = None


@dataclass(frozen=True)
class WarningSignal:
    """Send signal `number` this many seconds before the walltime ends."""

    number: int
    before_s: int


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
    features: tuple[str, ...] = ()
    """Node features or GPU models, all of which a node must have (`--constraint a&b`)."""
    only_nodes: tuple[str, ...] = ()
    not_nodes: tuple[str, ...] = ()

    @property
    def cpus(self) -> int:
        """CPUs per node."""
        return self.tasks_per_node * self.cpus_per_task

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True)
class JobSpec:
    """One request. The script runs once per task, on every node of the job."""

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
