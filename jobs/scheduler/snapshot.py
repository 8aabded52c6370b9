"""The state of a cluster at one moment, and a plan for it, as frozen values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from jobs.bands import Band
from jobs.lifecycle import Reason
from jobs.scheduler.fairshare import Association, Member, Project
from jobs.scheduler.limits import Quota, Usage
from jobs.scheduler.policy import Policy
from jobs.scheduler.priority import PriorityWeights
from jobs.spec import Resources

LATE_S = 60.0
"""So long past its end a job still counts as about to be gone."""


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
    """One GPU, or one MIG instance of one."""

    uuid: str
    index: int
    model: str
    memory_mib: int
    job_id: int | None = None
    """Who holds the whole of it."""
    shards: int = 0
    """Into how many equal parts it is divided for jobs that ask for parts; 0 where not allowed."""
    sharers: tuple[tuple[int, int], ...] = ()
    """Who holds parts of it: (job id, shards)."""
    domain: int = 0
    """GPUs of one NVLink domain of the node have the same number."""


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
    switches: tuple[str, ...] = ()
    """From its leaf switch up; empty where not known."""


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
    waits_besides: tuple[int, ...] = ()
    """Where those of `waits_for` ended otherwise: the same of those not ended yet."""
    array_id: int | None = None
    array_limit: int | None = None
    """It starts while fewer tasks of its array run than that, whatever limits those have."""
    array_index: int | None = None
    project_id: int = 0
    user_id: int = 0
    band: Band = Band.BATCH
    nice: int = 0
    """-1000 to 1000: the higher, the later. Below 0 is an admin's only."""
    eligible_at: datetime | None = None
    """Since when nothing of its own keeps it back; None: since it was submitted."""
    waited_before_s: float = 0.0
    """What it waited so before that."""
    expected_s: float | None = None
    """How long it will run as far as its history tells; None: its whole walltime."""
    typical_s: float | None = None
    """The same for the order, where a few long runs among many short ones hardly count; None: as
    expected."""
    reservations: frozenset[int] = frozenset()
    """The reservations of nodes that it may use."""
    claimed_at: datetime | None = None
    """When others were told to make room for it: it goes before all until it starts."""
    spread_s: tuple[float, float] | None = None
    """Within what: the shortest and the longest that is likely."""
    unreadable: str = ""
    """What is wrong with its request, where that cannot be read."""

    @property
    def label(self) -> str:
        """What people call it."""
        return label(self.id, self.array_id, self.array_index)

    @property
    def starts_by(self) -> float:
        """The last moment at which it can start, to end before its deadline, in seconds since the
        epoch; infinity without one."""
        if self.deadline_at is None:
            return math.inf
        # Not by the clock on the wall, which may be set back before the deadline, or forward.
        return self.deadline_at.timestamp() - self.walltime_s

    @property
    def association(self) -> Association:
        return self.project_id, self.user_id


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
    project_id: int = 0
    user_id: int = 0
    band: Band = Band.BATCH
    expected_end: datetime | None = None
    """When it ends as far as its history tells; None: at `ends_by`."""
    early_end: datetime | None = None
    """The earliest end that is likely."""
    gpus: float = 0.0
    """In all; parts as fractions."""
    started_at: datetime | None = None
    """None: just now, so that nobody preempts it."""
    saved_at: datetime | None = None
    """When its last checkpoint was written; None: it has none."""
    preemptions: int = 0
    """How often in a row it was preempted before this run."""
    submitted_at: datetime | None = None
    """None: not known, and so before all who wait."""
    waited_s: float = 0.0
    """What it had waited when this run began, as its age counts it."""
    resources: Resources | None = None
    """What it asked for; None: not known, and so not counted among what is typical."""
    leaving: bool = False
    """It has been told to stop; then `ends_by` is when it will be gone at the latest."""
    preemptible: bool = True
    """It can be told to stop; False for one that is still being started, or ended already."""
    again: Pending | None = None
    """As what it waits again when it has to make room; None: it does not."""

    @property
    def label(self) -> str:
        """What people call it."""
        return label(self.id, self.array_id, self.array_index)

    def is_stuck(self, now: float) -> bool:
        """So long past its end that nobody knows when it will be gone."""
        return self.ends_by.timestamp() + LATE_S < now


@dataclass(frozen=True)
class Reservation:
    """Nodes that an admin keeps for somebody, or for maintenance, for a time."""

    id: int
    name: str
    start: datetime
    end: datetime
    node_ids: frozenset[int]


@dataclass(frozen=True)
class Snapshot:
    """All that a decision may depend on. The order of the tuples means nothing."""

    nodes: tuple[Node, ...]
    pending: tuple[Pending, ...]
    running: tuple[Running, ...] = ()
    projects: tuple[Project, ...] = ()
    members: tuple[Member, ...] = ()
    usage: tuple[tuple[Association, float], ...] = ()
    """Weighted GPU-seconds, decayed to this moment."""
    quotas: tuple[Quota, ...] = ()
    lends: frozenset[int | None] = frozenset()
    """Projects whose children lend to each other; None stands for the top of the tree."""
    quota_usage: Usage | None = None
    """What counts against the quotas; needed where there are any."""
    reservations: tuple[Reservation, ...] = ()
    policy: Policy = field(default_factory=Policy)
    weights: tuple[tuple[str, PriorityWeights], ...] = ()
    """Of partitions that have their own."""


@dataclass(frozen=True)
class Placement:
    """A job's part on one node."""

    node_id: int
    gpu_uuids: tuple[str, ...]
    cpus: int
    memory_mib: int
    shards: int = 0
    """How many parts of its one GPU; 0: whole GPUs."""


@dataclass(frozen=True)
class Start:
    """A job that starts now; the first placement is its rank 0."""

    job_id: int
    placements: tuple[Placement, ...]


@dataclass(frozen=True)
class Preempted:
    """A running job that has to make room for a waiting one."""

    job_id: int
    for_id: int


@dataclass(frozen=True)
class Explanation:
    """Why a job waits: the word, and a sentence that names the blocker and what would help."""

    reason: Reason
    detail: str
    more: tuple[str, ...] = ()
    """What else is in its way now, a sentence each."""
    ahead: int | None = None
    """How many wait in its partition before it; None where it does not wait for its turn, or its
    place is not known."""


@dataclass(frozen=True)
class Estimate:
    """When a job is expected to start if nobody else comes, and within what."""

    at: datetime
    early: datetime
    late: datetime


@dataclass(frozen=True)
class Plan:
    """What to do now. Every pending job is in `starts`, `expired` or `explanations`."""

    starts: tuple[Start, ...]
    explanations: dict[int, Explanation]
    expired: tuple[int, ...] = ()
    """Jobs that can no longer end before their deadline."""
    preempted: tuple[Preempted, ...] = ()
    """Who is to be told to stop."""
    estimates: dict[int, Estimate] = field(default_factory=dict)
    """By job id, for every job that may start without anybody's doing, and before its deadline by
    all that is known."""
