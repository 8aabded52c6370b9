"""A workload to simulate: jobs as they were submitted, and the nodes they run on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Quota, Usage
from jobs.scheduler.snapshot import Node
from jobs.scheduler.tally import Tally

GPUS_PER_NODE = 8
"""In all public workloads."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One job of a workload. Times are whole seconds since the workload's beginning."""

    id: int
    """Of two that are submitted at once the lower is first."""
    submit_s: int
    run_s: int
    """How long it really runs."""
    gpus: int
    partition: str
    request_s: int | None = None
    """The time limit its user asked for; None where the workload does not tell."""
    user_id: int = 0
    """0 where the workload does not tell."""
    project_id: int = 0
    band: Band = Band.BATCH
    name: str = ""
    """What its user runs again and again under the same name; empty where it is not told."""


@dataclass(frozen=True)
class Workload:
    """Jobs in the order of their submission, and the cluster."""

    name: str
    jobs: tuple[Trial, ...]
    nodes: tuple[Node, ...]
    projects: tuple[Project, ...] = ()
    quotas: tuple[Quota, ...] = ()
    lends: frozenset[int | None] = field(default_factory=frozenset)

    def tally(self) -> Tally:
        """Nothing used yet."""
        usage = Usage(datetime.fromtimestamp(0, UTC))
        return Tally(self.projects, self.quotas, usage, self.lends)
