"""The state of a cluster at one moment, and a plan for it, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from jobs.lifecycle import Reason
from jobs.spec import Resources


def label(job_id: int, array_id: int | None, array_index: int | None) -> str:
    """`17`, or `17_3` for index 3 of array 17, as in Slurm."""
    return str(job_id) if array_id is None or array_index is None else f"{array_id}_{array_index}"


class DependencyState(StrEnum):
    """What a job's dependencies come to, taken together."""

    NONE = "none"
    WAITING = "waiting"
    MET = "met"
    NEVER = "never"


@dataclass(frozen=True)
class Gpu:
    """One GPU; `job_id` is who holds it."""

    uuid: str
    index: int
    model: str
    memory_mib: int
    job_id: int | None = None
    shards: int = 0
    """Into how many equal parts it is divided for jobs that ask for parts; 0 where not allowed."""


@dataclass(frozen=True)
class Node:
    """One machine with what it has and what is left of it.

    `unavailable` is empty when jobs may start here, else why not ("draining: fan noise").
    """

    id: int
    name: str
    partition: str
    cpus: int
    memory_mib: int
    cpus_free: int
    memory_free_mib: int
    gpus: tuple[Gpu, ...] = ()
    features: tuple[str, ...] = ()
    unavailable: str = ""
    jobs: tuple[int, ...] = ()
    exclusive: bool = False
    """A job that asked for the whole node runs here."""


@dataclass(frozen=True)
class Pending:
    """A job that waits."""

    id: int
    submitted_at: datetime
    resources: Resources
    walltime_s: int
    partition: str
    held: bool = False
    hold_reason: Reason = Reason.HELD_USER
    """Who or what holds it, when `held`."""
    begin_at: datetime | None = None
    deadline_at: datetime | None = None
    dependency: DependencyState = DependencyState.NONE
    waits_for: tuple[int, ...] = ()
    """Jobs, or arrays by their ids: those not ended yet, or those that ended otherwise (NEVER)."""
    array_id: int | None = None
    array_limit: int | None = None
    array_index: int | None = None

    @property
    def label(self) -> str:
        """What people call it."""
        return label(self.id, self.array_id, self.array_index)


@dataclass(frozen=True)
class Running:
    """A job that holds leases; `ends_by` is its start plus its walltime.

    What it holds is used to foretell what its end frees. Without the CPUs and the memory, they
    count as free only once the node is empty: a later, still true, "at the latest".
    """

    id: int
    ends_by: datetime
    node_ids: tuple[int, ...]
    array_id: int | None = None
    cpus_per_node: int = 0
    memory_mib_per_node: int = 0
    array_index: int | None = None

    @property
    def label(self) -> str:
        """What people call it."""
        return label(self.id, self.array_id, self.array_index)


@dataclass(frozen=True)
class Snapshot:
    """All that a decision may depend on. The order of the tuples means nothing."""

    nodes: tuple[Node, ...]
    pending: tuple[Pending, ...]
    running: tuple[Running, ...] = ()


@dataclass(frozen=True)
class Placement:
    """A job's part on one node."""

    node_id: int
    gpu_uuids: tuple[str, ...]
    cpus: int
    memory_mib: int


@dataclass(frozen=True)
class Start:
    """A job that starts now; the first placement is its rank 0."""

    job_id: int
    placements: tuple[Placement, ...]


@dataclass(frozen=True)
class Explanation:
    """Why a job waits: the word, and a sentence that names the blocker and what would help."""

    reason: Reason
    detail: str


@dataclass(frozen=True)
class Plan:
    """What to do now. Every pending job is in `starts`, `expired` or `explanations`."""

    starts: tuple[Start, ...]
    explanations: dict[int, Explanation]
    expired: tuple[int, ...] = ()
    """Jobs that can no longer end before their deadline."""
