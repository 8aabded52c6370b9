"""A lab as it is beside the same lab with something changed, over the same jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from jobs.bands import Band
from jobs.scheduler import fit
from jobs.scheduler.limits import Demand, Limited
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.quota import QuotaTree
from jobs.scheduler.rank import Sizes
from jobs.scheduler.simulate.changes import Changes, changed_policy, changed_workload
from jobs.scheduler.simulate.job import asked
from jobs.scheduler.simulate.lengths import Lengths, Requested, Within
from jobs.scheduler.simulate.measure import Figures, figures
from jobs.scheduler.simulate.run import Simulation
from jobs.scheduler.simulate.workload import Trial, Workload

Told = Callable[[float], None]
"""Called again and again with the part of the work that is done, from 0 to 1."""
_WHATEVER_IT_TAKES = frozenset({Order.PRIORITY, Order.SUBMISSION})
"""Orders that do not ask how long jobs are expected to run."""


@dataclass(frozen=True)
class Side:
    """What came of one of the two."""

    figures: Figures
    never: frozenset[int]
    """Jobs that could never start: a quota or the nodes do not allow them."""

    @property
    def refused(self) -> int:
        return len(self.never)

    def as_json(self) -> dict[str, Any]:
        """All of it by its names."""
        return asdict(self.figures) | {"refused": self.refused}


@dataclass(frozen=True)
class Comparison:
    """Both are simulated."""

    now: Side
    then: Side
    differ: Mapping[str, int]
    """By project, how many of its jobs only one of the two could start: those figures are not of
    the same jobs."""


def compare(workload: Workload, policy: Policy, changes: Changes, told: Told) -> Comparison:
    """Raises `ChangeError` before anything is played. `told` may raise to end it."""
    other, terms = changed_workload(workload, changes), changed_policy(policy, changes)
    now = play(workload, policy, lambda part: told(part / 2))
    then = play(other, terms, lambda part: told(0.5 + part / 2))
    return Comparison(now, then, _by_project(workload, now.never ^ then.never))


def play(workload: Workload, policy: Policy, told: Told) -> Side:
    """One of the two, to its end."""
    kept = tuple(_after_each_other(workload.jobs, {one.id for one in _possible(workload)}))
    simulation = Simulation(replace(workload, jobs=kept), policy, _lengths(policy))
    for _ in simulation.steps():
        told(simulation.ended / len(kept))
    never = {trial.id for trial in workload.jobs if trial.counts} - {
        run.trial.id for run in simulation.runs.values() if run.end_s >= 0
    }
    return Side(figures(simulation), frozenset(never))


def _by_project(workload: Workload, ids: Container[int]) -> dict[str, int]:
    names = {project.id: project.name for project in workload.projects}
    found = Counter(trial.project_id for trial in workload.jobs if trial.id in ids)
    return {names.get(number, str(number)): found[number] for number in sorted(found)}


def _lengths(policy: Policy) -> Lengths:
    """What the lab's scheduler knows: the walltimes, and for the order what history foretells."""
    return Requested() if policy.order in _WHATEVER_IT_TAKES else Within()


def _possible(workload: Workload) -> Iterator[Trial]:
    """The jobs that quotas and nodes would let start; how many may wait is not played."""
    tree, nodes = QuotaTree(workload.projects, workload.quotas, workload.lends), workload.nodes
    sizes = Sizes(nodes)
    known: dict[tuple[object, ...], bool] = {}
    for trial in workload.jobs:
        resources = trial.resources or asked(round(trial.gpus))
        models = tree.allowed(Limited.GPU_MODELS, trial.project_id, Band(trial.band))
        shape = (resources, trial.partition, models)
        if shape not in known:
            fits = fit.refuse(resources, nodes, trial.partition) is None
            known[shape] = fits and not fit.leave_too_few(resources, nodes, trial.partition, models)
        if known[shape]:
            gpus = sizes.asked(trial.partition, resources)
            if tree.refuse(_demand(trial, gpus, resources.gpu_model), jobs=0) is None:
                yield trial


def _after_each_other(jobs: Iterable[Trial], kept: Container[int]) -> Iterator[Trial]:
    """Those that are kept: who waited for another one waits for whom that one waited for."""
    instead: dict[int, tuple[int, ...]] = {}
    # Who is waited for has the lower id.
    for trial in sorted(jobs, key=lambda trial: trial.id):
        after = trial.after
        if not instead.keys().isdisjoint(after):
            after = tuple(sorted({one for other in after for one in instead.get(other, (other,))}))
        if trial.id in kept:
            yield replace(trial, after=after)
        else:
            instead[trial.id] = after


def _demand(trial: Trial, gpus: float, model: str | None) -> Demand:
    return Demand(
        trial.id, trial.project_id, trial.user_id, Band(trial.band), gpus,
        trial.request_s or 0, trial.partition, model,
    )  # fmt: skip
