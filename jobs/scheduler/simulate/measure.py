"""What came out of a simulation, in figures; `docs/simulate.md` says what each means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, fsum

from jobs.bands import Band
from jobs.scheduler.simulate.job import Run
from jobs.scheduler.simulate.run import Simulation

SHORT_S = 10.0
"""Shorter jobs count as being so long, lest they decide everything: the bounded slowdown."""


@dataclass(frozen=True)
class PartFigures:
    """How one project fared, or one band."""

    jobs: int
    mean_wait_s: float
    p99_wait_s: float
    slowdown: float
    """The mean over its jobs of the bounded slowdown."""

    @property
    def speed(self) -> float:
        """1 where no job waits, 1/2 where its jobs take twice their time; slow ones count most."""
        return 1 / self.slowdown


@dataclass(frozen=True)
class Figures:
    """All of them, of one policy over one workload."""

    jobs: int
    mean_wait_s: float
    median_wait_s: float
    p99_wait_s: float
    max_wait_s: float
    mean_completion_s: float
    median_completion_s: float
    p99_completion_s: float
    mean_wait_gang_s: float
    """Of jobs of more than one node."""
    p99_wait_gang_s: float
    mean_slowdown: float
    fairness: float
    """Jain's index over the projects' speeds."""
    slowest_project_speed: float
    allocated_share: float
    """Of all GPU time until the last job was submitted."""
    preemptions: int
    lost_gpu_hours: float
    makespan_s: float
    passes: int
    mean_pass_s: float
    max_pass_s: float
    projects: dict[str, PartFigures]
    bands: dict[str, PartFigures]


def figures(simulation: Simulation) -> Figures:
    """Of a simulation that has been played. Who never could start is not in them."""
    runs = [run for run in simulation.runs.values() if run.trial.counts and run.end_s >= 0]
    waits = [run.wait_s for run in runs]
    times = [run.end_s - run.trial.submit_s for run in runs]
    gangs = [run.wait_s for run in runs if run.is_gang]
    projects = _projects(simulation, runs)
    speeds = [project.speed for project in projects.values()]
    return Figures(
        jobs=len(runs),
        mean_wait_s=mean(waits),
        median_wait_s=quantile(waits, 0.5),
        p99_wait_s=quantile(waits, 0.99),
        max_wait_s=max(waits, default=0.0),
        mean_completion_s=mean(times),
        median_completion_s=quantile(times, 0.5),
        p99_completion_s=quantile(times, 0.99),
        mean_wait_gang_s=mean(gangs),
        p99_wait_gang_s=quantile(gangs, 0.99),
        mean_slowdown=mean([_slowdown(run) for run in runs]),
        fairness=jain(speeds),
        slowest_project_speed=min(speeds, default=0.0),
        allocated_share=_allocated(simulation),
        preemptions=sum(run.preemptions for run in runs),
        lost_gpu_hours=fsum(run.lost_gpu_s for run in runs) / 3600,
        makespan_s=max((run.end_s for run in runs), default=0.0),
        passes=len(simulation.pass_s),
        mean_pass_s=mean(simulation.pass_s),
        max_pass_s=max(simulation.pass_s, default=0.0),
        projects=projects,
        bands=_bands(runs),
    )


def _projects(simulation: Simulation, runs: Iterable[Run]) -> dict[str, PartFigures]:
    names = {project.id: project.name for project in simulation.workload.projects}
    found: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        found[run.trial.project_id].append(run)
    return {names.get(number, str(number)): _part(found[number]) for number in sorted(found)}


def _bands(runs: Sequence[Run]) -> dict[str, PartFigures]:
    """The highest first."""
    of = {band: [run for run in runs if run.trial.band is band] for band in Band}
    found = sorted((band for band in Band if of[band]), key=lambda band: -band.rank)
    return {str(band): _part(of[band]) for band in found}


def _part(runs: Sequence[Run]) -> PartFigures:
    waits = [run.wait_s for run in runs]
    return PartFigures(
        jobs=len(runs),
        mean_wait_s=mean(waits),
        p99_wait_s=quantile(waits, 0.99),
        slowdown=mean([_slowdown(run) for run in runs]),
    )


def _slowdown(run: Run) -> float:
    work_s = max(1.0, run.trial.run_s)
    time_s = run.end_s - run.trial.submit_s
    return max(1.0, time_s / max(work_s, SHORT_S))


def _allocated(simulation: Simulation) -> float:
    submits = [trial.submit_s for trial in simulation.workload.jobs if trial.counts]
    if not submits:
        return 0.0
    gpus = sum(len(node.gpus) for node in simulation.workload.nodes)
    total = gpus * (max(submits) - min(submits))
    held = fsum(run.timely_gpu_s for run in simulation.runs.values())
    return held / total if total else 0.0


def jain(values: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2): 1 where all are equal, 1/n where one has everything.

    Jain, Chiu, Hawe: A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems, DEC-TR-301, 1984.
    """
    squares = fsum(value * value for value in values)
    return fsum(values) ** 2 / (len(values) * squares) if squares else 1.0


def mean(values: Sequence[float]) -> float:
    """0 of nothing."""
    return fsum(values) / len(values) if values else 0.0


def quantile(values: Iterable[float], share: float) -> float:
    """Between two neighbours in proportion, as numpy does; 0 of nothing."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    at = share * (len(ordered) - 1)
    low, high = ordered[int(at)], ordered[ceil(at)]
    return low + (high - low) * (at - int(at))
