"""What nodes report, as frozen values. Times are Unix seconds on the node's own clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """A run on a node, as the node knows it. UNKNOWN never restarts or frees anything."""

    RUNNING = "running"
    EXITED = "exited"
    ABSENT = "absent"
    """The node has no trace of it: it was never launched there."""
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """Why a run ended."""

    EXITED = "exited"
    """By itself; its exit code or signal is its own."""
    STOPPED = "stopped"
    """We were asked to stop it."""
    WALLTIME = "walltime"
    MEMORY = "memory"
    LAUNCH_FAILED = "launch_failed"
    """Its process could not be started (no such directory, script not executable, ...)."""
    NOT_BEGUN = "not_begun"
    """The launch was cut off before anything was started, and nothing will be: it may be given to
    another node."""
    NODE_RESTARTED = "node_restarted"
    LOST = "lost"
    """Its shepherd was killed, and its processes with it; nobody saw an exit code."""
    FENCED = "fenced"
    """The node's lease ended, and it with that: it may be started elsewhere."""


@dataclass(frozen=True)
class RunObserved:
    """One run (a job's part on one node) as seen at one moment."""

    key: str
    phase: Phase
    started_at: float | None = None
    ended_at: float | None = None
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    log_bytes: int = 0
    log_tail: bytes | None = None
    """The whole log, once ended and when it is small; None when it has to be fetched."""
    fenced: bool = False
    """It cannot outlive the node's lease."""


@dataclass(frozen=True)
class CheckpointSeen:
    """A file or directory in a run's checkpoint directory."""

    key: str
    name: str
    path: str
    size_bytes: int
    modified_at: float
    step: int | None
    complete: bool
    problem: str = ""
    """Why it is not whole (`the file is empty`), where that was found out."""
    write_s: float | None = None
    """Seconds that writing it took, where somebody saw it begin."""


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU; `run_key` is None for one of no job of ours."""

    pid: int
    memory_mib: int | None
    run_key: str | None
    user: str | None = None
    command: str = ""
    age_s: float | None = None
    """How long it runs."""


@dataclass(frozen=True)
class GpuSample:
    """One GPU at one moment. None: the card does not tell (as under MIG)."""

    uuid: str
    index: int
    memory_used_mib: int | None
    utilization_pct: int | None
    temperature_c: int | None
    power_w: float | None
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True)
class SystemSample:
    """The node itself at one moment."""

    load1: float
    memory_total_mib: int
    memory_available_mib: int
    disk_total_mib: int
    disk_free_mib: int
    """Of the file system that holds the spool directory."""
    uptime_s: float
    mps: bool = False
    """CUDA's Multi-Process Service can be reached where programs look for it."""


@dataclass(frozen=True)
class Observation:
    """Everything one look at a node brought back. A part not asked for is empty or None."""

    boot_id: str
    at: float
    runs: tuple[RunObserved, ...] = ()
    checkpoints: tuple[CheckpointSeen, ...] = ()
    gpus: tuple[GpuSample, ...] | None = None
    system: SystemSample | None = None
    problems: tuple[str, ...] = ()
    """What could not be read, in plain words (`nvidia-smi did not answer within 5 s`)."""
    clock: float | None = None
    """Seconds since the node's boot, before anything else was looked at; None: not told."""
