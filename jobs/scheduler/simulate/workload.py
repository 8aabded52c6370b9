"""A workload to simulate: jobs as they were submitted, and the nodes they run on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from jobs.bands import Band
from jobs.scheduler.fairshare import Member, Project
from jobs.scheduler.limits import Quota, Usage
from jobs.scheduler.priority import PriorityWeights
from jobs.scheduler.snapshot import Node
from jobs.scheduler.tally import Tally
from jobs.scheduler.usage import Decay
from jobs.spec import Resources

GPUS_PER_NODE = 8
"""In all public workloads."""
EPOCH = Usage(datetime.fromtimestamp(0, UTC))
"""Nothing was used before."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One job of a workload. Times are whole seconds since the workload's beginning; what was
    there before it has negative ones."""

    id: int
    """Of two that are submitted at once the lower is first."""
    submit_s: int
    run_s: int
    """How long it really runs."""
    gpus: float
    """In all; parts as fractions."""
    partition: str
    request_s: int | None = None
    """The time limit its user asked for; None where the workload does not tell."""
    user_id: int = 0
    """0 where the workload does not tell."""
    project_id: int = 0
    band: Band = Band.BATCH
    name: str = ""
    """What its user runs again and again under the same name; empty where it is not told."""
    resources: Resources | None = None
    """What it asks for; None where the workload tells only how many GPUs."""
    nice: int = 0
    after: tuple[int, ...] = ()
    """Jobs that have to end before it may start."""
    after_arrays: tuple[int, ...] = ()
    """Arrays of which all tasks have to."""
    array_id: int | None = None
    array_limit: int | None = None
    """How many tasks of its array run at once."""
    counts: bool = True
    """False for what only fills the cluster at the beginning: it is in no figure."""


@dataclass(frozen=True)
class Workload:
    """Jobs in the order of their submission, and the cluster."""

    name: str
    jobs: tuple[Trial, ...]
    nodes: tuple[Node, ...]
    projects: tuple[Project, ...] = ()
    quotas: tuple[Quota, ...] = ()
    lends: frozenset[int | None] = field(default_factory=frozenset)
    checkpoints: bool = True
    """Who is preempted goes on where it was; else it begins anew."""
    members: tuple[Member, ...] = ()
    """Who has other than one share."""
    weights: tuple[tuple[str, PriorityWeights], ...] = ()
    """Of partitions that have their own."""
    decay: Decay = field(default_factory=Decay)
    usage: Usage = EPOCH
    """When time 0 was, and what of GPU-hours had been used by then. Who ran is among the jobs."""
    time_zone: str = "UTC"
    """Of its calendar months."""

    def tally(self) -> Tally:
        """As of time 0, and nobody runs."""
        periods = {one.period for one in self.quotas if one.limits.gpu_hours is not None}
        used = {period: self.usage.used.get(period, {}) for period in periods}
        return Tally(self.projects, self.quotas, replace(self.usage, used=used), self.lends)

    def everybody(self) -> tuple[Member, ...]:
        """The members, and with one share each who only has jobs."""
        found = {(one.project_id, one.user_id): one for one in self.members}
        for trial in self.jobs:
            key = (trial.project_id, trial.user_id)
            found.setdefault(key, Member(*key))
        return tuple(found[key] for key in sorted(found))
