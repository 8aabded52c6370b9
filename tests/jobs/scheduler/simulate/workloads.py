"""Small workloads in few words, and what became of their jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.simulate.lengths import Lengths, TrueLengths
from jobs.scheduler.simulate.run import Simulation
from jobs.scheduler.simulate.workload import GPUS_PER_NODE, Trial, Workload
from jobs.scheduler.snapshot import Gpu, Node

PUSHED = Policy(Order.SUBMISSION, Backfill.EASY, reservations=1, min_run_s=0)
"""With preemption at any moment, and EASY."""


def trial(job_id: int, submit_s: int, run_s: int, gpus: int, **more: Any) -> Trial:
    """In partition p, if no other is named."""
    return Trial(job_id, submit_s, run_s, gpus, **({"partition": "p"} | more))


def nodes(number: int, partition: str = "p", first: int = 1) -> tuple[Node, ...]:
    """Of 8 GPUs."""
    return tuple(
        Node(
            at, f"n{at}", partition, 8, 1, 8, 1,
            tuple(Gpu(f"{at}-{index}", index, "GPU", 1) for index in range(GPUS_PER_NODE)),
        )
        for at in range(first, first + number)
    )  # fmt: skip


def workload(trials: Iterable[Trial], cluster: int | tuple[Node, ...], **more: Any) -> Workload:
    """On so many nodes."""
    made = nodes(cluster) if isinstance(cluster, int) else cluster
    return Workload("by hand", tuple(trials), made, **more)


def lending(trials: Iterable[Trial], *guarantees: int) -> Workload:
    """One partition; project 1 has the first number of nodes as its guarantee, and so on."""
    ids = range(1, len(guarantees) + 1)
    return workload(
        trials,
        sum(guarantees),
        projects=tuple(Project(number, f"lab {number}", None) for number in ids),
        quotas=tuple(
            Quota(number, Limits(gpus=GPUS_PER_NODE * have))
            for number, have in zip(ids, guarantees, strict=True)
        ),
        lends=frozenset({None}),
    )


def played(work: Workload, policy: Policy, lengths: Lengths | None = None) -> Simulation:
    """To the end."""
    simulation = Simulation(work, policy, lengths or TrueLengths())
    simulation.play()
    return simulation


def starts(simulation: Simulation) -> dict[int, float]:
    """When each job began first."""
    return {job_id: run.first_start_s for job_id, run in sorted(simulation.runs.items())}


def ends(simulation: Simulation) -> dict[int, float]:
    """When each was done."""
    return {job_id: run.end_s for job_id, run in sorted(simulation.runs.items())}
