"""One job of a simulation: as the scheduler sees it, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache

from jobs.scheduler.preempt import Victim, in_a_row
from jobs.scheduler.rank import waited_s
from jobs.scheduler.simulate.lengths import Lengths, times
from jobs.scheduler.simulate.workload import GPUS_PER_NODE, Trial
from jobs.scheduler.snapshot import Pending
from jobs.spec import Resources

RESTART_S = 40.0
"""What a preemption costs on one node, as in the published runs."""
GANG_RESTART_S = 60.0
"""The same on several."""


@dataclass(slots=True)
class Run:
    """What becomes of one job."""

    trial: Trial
    pending: Pending
    left_s: float
    """Work still to be done, restarts included."""
    ready_s: float
    """When it no longer waited for other jobs to end."""
    first_start_s: float = -1.0
    start_s: float = -1.0
    """Of the present run."""
    gpus: float = 0.0
    """As how many it counts where it runs, or ran last; parts as fractions."""
    end_s: float = -1.0
    served_s: float = 0.0
    """In all its runs."""
    timely_gpu_s: float = 0.0
    """GPUs x what of that was between the first and the last submission."""
    lost_gpu_s: float = 0.0
    """GPUs x what of that its restarts took, or what had to be done again."""
    preemptions: int = 0
    """In all its runs."""
    in_a_row: int = 0
    """Those that still counted when the present run began."""
    tries: int = 0
    """Counts its starts, so that events of runs that were cut short are known."""

    @property
    def wait_s(self) -> float:
        """All the time it was ready and not running."""
        return self.end_s - self.ready_s - self.served_s

    @property
    def done_s(self) -> float:
        """Of its work, before its present run or its next."""
        return max(0.0, self.trial.run_s - self.left_s)

    def victim(self, group: int, now: float, checkpoints: bool) -> Victim:
        """As one that runs and may have to make room. With checkpoints it has just saved."""
        return Victim(
            self.trial.id,
            self.pending.band,
            group,
            self.gpus,
            self.start_s,
            now if checkpoints else self.start_s,
            in_a_row(self.in_a_row, now - self.start_s),
        )

    @property
    def is_gang(self) -> bool:
        """Whether it runs on several nodes."""
        return self.pending.resources.nodes > 1

    def make_room(self, now: float, checkpoints: bool) -> Pending:
        """It goes on later where it was, after a restart; without checkpoints it begins anew."""
        ran_s = now - self.start_s
        if checkpoints:
            cost = GANG_RESTART_S if self.is_gang else RESTART_S
            self.left_s += cost - ran_s
            self.lost_gpu_s += self.gpus * cost
        else:
            self.left_s = max(1.0, self.trial.run_s)
            self.lost_gpu_s += self.gpus * ran_s
        self.preemptions += 1
        self.in_a_row = in_a_row(self.in_a_row, ran_s) + 1
        self.tries += 1
        # It grew no older while it ran.
        return replace(
            self.pending,
            claimed_at=None,
            waited_before_s=waited_s(self.pending, self.start_s),
            eligible_at=datetime.fromtimestamp(now, UTC),
        )


def pending(trial: Trial, lengths: Lengths) -> Pending:
    """The job as the scheduler sees it."""
    told = times(trial, lengths)
    return Pending(
        id=trial.id,
        submitted_at=datetime.fromtimestamp(trial.submit_s, UTC),
        resources=trial.resources or asked(round(trial.gpus)),
        walltime_s=told.walltime_s,
        partition=trial.partition,
        project_id=trial.project_id,
        user_id=trial.user_id,
        band=trial.band,
        nice=trial.nice,
        expected_s=told.expected_s,
        typical_s=told.typical_s,
    )


@lru_cache(maxsize=4096)
def asked(gpus: int) -> Resources:
    """More GPUs than a node has go on several, each with the same number."""
    nodes = max(1, -(-gpus // GPUS_PER_NODE))
    per_node = -(-gpus // nodes)
    return Resources(nodes=nodes, gpus_per_node=per_node, cpus_per_task=max(1, per_node))
