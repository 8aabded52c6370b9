"""A recorded workload under one policy, from its first job to its last."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jobs.scheduler.simulate.measure import Figures, figures
from jobs.scheduler.simulate.policies import SimPolicy
from jobs.scheduler.simulate.run import Simulation
from jobs.scheduler.simulate.scenario import workload
from jobs.scheduler.simulate.traces import Cluster, Recorded


def play(
    name: str,
    recorded: Iterable[Recorded],
    cluster: Cluster,
    policy: SimPolicy,
    clock: Callable[[], float],
) -> Figures:
    """What came of it; `clock`, in seconds, measures the passes.

    Raises `PolicyError` where the workload does not tell what the policy needs to know.
    """
    simulation = Simulation(
        workload(name, recorded, cluster, policy), policy.policy, policy.start_lengths(), clock
    )
    simulation.play()
    return figures(simulation)
