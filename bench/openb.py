"""Parts of GPUs: how much of a cluster is allocated when pods come until nothing fits any more.

Pods are drawn as in the published runs of FGD (Weng et al., USENIX ATC 2023): all of the list in a
random order, then more of them, drawn with replacement, until they ask for 130 % of all GPUs. None
ever ends. Nodes have a random order, too, in which equal ones are taken. Every seed gives another
order of both, and the mean over the seeds counts.

Carrel places them with a plan over all of them, in the order in which they come.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean

import numpy as np

from jobs.scheduler.simulate.measure import Figures
from jobs.scheduler.simulate.openb import MILLI, Machine, Pod, allocated, read_machines, read_pods
from jobs.scheduler.simulate.traces import Format

OFFERED = 1.3
"""Of all GPUs, what the pods ask for together."""
SEEDS = range(42, 47)
MACHINES = "openb/openb_node_list_gpu_node.csv"


@dataclass(frozen=True)
class Workload:
    """A list of pods and one of nodes; `published`: what others reached with it, by policy."""

    name: str
    pods: str
    nodes: str
    published: Mapping[str, float]


def _known(variant: str, *published: float) -> Workload:
    names = ("random", "best-fit", "fgd")
    pods = f"openb/openb_pod_list_{variant}.csv.gz"
    return Workload(f"openb-{variant}", pods, MACHINES, dict(zip(names, published, strict=True)))


WORKLOADS = (
    _known("default", 0.8747, 0.9308, 0.9539),
    _known("cpu050", 0.9124, 0.9379, 0.9521),
    _known("cpu100", 0.8911, 0.9344, 0.9535),
    _known("gpushare40", 0.8600, 0.9169, 0.9415),
    _known("gpuspec10", 0.8743, 0.9330, 0.9495),
    _known("gpuspec33", 0.8646, 0.9309, 0.9455),
    _known("multigpu20", 0.8869, 0.9393, 0.9565),
)


@dataclass(frozen=True)
class Loaded:
    """A workload that has been read."""

    workload: Workload
    pods: tuple[Pod, ...]
    machines: tuple[Machine, ...]


def load(workload: Workload, folder: Path) -> Loaded:
    """Raises `TableError`."""
    machines = read_machines(folder / workload.nodes)
    with_gpus = tuple(machine for machine in machines if machine.gpus)
    return Loaded(workload, read_pods(folder / workload.pods), with_gpus)


def drawn(loaded: Loaded, dice: random.Random) -> tuple[list[Pod], list[Machine]]:
    """The pods as they come, and the nodes in their order."""
    pods = sorted(loaded.pods, key=lambda pod: pod.name)
    machines = sorted(loaded.machines, key=lambda machine: machine.name)
    most = OFFERED * MILLI * sum(machine.gpus for machine in machines)
    coming = list(pods)
    dice.shuffle(coming)
    asked = sum(pod.gpus * pod.gpu_milli for pod in coming)
    while asked > most:
        gone = coming.pop(dice.randrange(len(coming)))
        asked -= gone.gpus * gone.gpu_milli
    # A list that asks for no GPU at all would never end.
    while asked and asked + (pod := dice.choice(pods)).gpu_milli <= most:
        asked += pod.gpus * pod.gpu_milli
        coming.append(pod)
    dice.shuffle(machines)
    return coming, machines


class Nodes:
    """What is left of all nodes, for the plain policies."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        width = max(machine.gpus for machine in machines)
        self.cpus = np.array([machine.cpu_milli for machine in machines])
        self.memory = np.array([machine.memory_mib for machine in machines])
        self.gpus = np.array([[MILLI * (at < m.gpus) for at in range(width)] for m in machines])
        self.most_cpus, self.most_gpus = int(self.cpus.max()), width * MILLI
        models = [machine.model for machine in machines]
        self._is_of = {name: np.array([model == name for model in models]) for name in {*models}}

    def fitting(self, pod: Pod) -> np.ndarray:
        """The numbers of the nodes that could take it."""
        fits = (self.cpus >= pod.cpu_milli) & (self.memory >= pod.memory_mib)
        if pod.gpus:
            fits &= (self.gpus >= pod.gpu_milli).sum(axis=1) >= pod.gpus
        if pod.gpus and pod.models:
            fits &= np.any(
                [self._is_of[m] for m in pod.models if m in self._is_of] or False, axis=0
            )
        return np.flatnonzero(fits)

    def take(self, node: int, pod: Pod, gpus: Sequence[int]) -> None:
        """Give it these GPUs of the node."""
        self.cpus[node] -= pod.cpu_milli
        self.memory[node] -= pod.memory_mib
        self.gpus[node, list(gpus)] -= pod.gpu_milli


Choose = Callable[[Nodes, Pod, np.ndarray], tuple[int, Sequence[int]]]
"""The node to take of those that fit, and its GPUs."""


def choose_at_random(dice: random.Random) -> Choose:
    """Any node, any GPUs."""

    def choose(nodes: Nodes, pod: Pod, fitting: np.ndarray) -> tuple[int, Sequence[int]]:
        node = int(fitting[dice.randrange(len(fitting))])
        return node, dice.sample(list(np.flatnonzero(nodes.gpus[node] >= pod.gpu_milli)), pod.gpus)

    return choose


def choose_best_fit(nodes: Nodes, pod: Pod, fitting: np.ndarray) -> tuple[int, Sequence[int]]:
    """Where the least is left of CPUs and GPUs, in hundredths of the largest node's, and there the
    GPUs with the least room."""
    asked = pod.gpus * pod.gpu_milli
    cpus = (nodes.cpus[fitting] - pod.cpu_milli) / nodes.most_cpus
    gpus = (nodes.gpus[fitting].sum(axis=1) - asked) / nodes.most_gpus
    node = int(fitting[np.floor(100 * (1 - (cpus + gpus) / 2)).argmax()])
    room = nodes.gpus[node]
    return node, [at for at in np.argsort(room, kind="stable") if room[at] >= pod.gpu_milli][
        : pod.gpus
    ]


def placed(pods: Sequence[Pod], machines: Sequence[Machine], choose: Choose) -> float:
    """The share of all GPUs that is allocated in the end."""
    nodes = Nodes(machines)
    used = 0
    for pod in pods:
        fitting = nodes.fitting(pod)
        if len(fitting):
            node, gpus = choose(nodes, pod, fitting)
            nodes.take(node, pod, gpus)
            used += pod.gpus * pod.gpu_milli
    return used / (MILLI * sum(machine.gpus for machine in machines))


def play(loaded: Loaded, policy: str, seed: int) -> tuple[float, float]:
    """The share of all GPUs that is allocated in the end, and what that took of a processor, s."""
    began = time.process_time()
    dice = random.Random(seed)
    pods, machines = drawn(loaded, dice)
    if policy == "carrel":
        share = allocated(pods, machines)
    else:
        share = placed(
            pods, machines, choose_best_fit if policy == "best-fit" else choose_at_random(dice)
        )
    return share, time.process_time() - began


POLICIES = ("random", "best-fit", "carrel")


@dataclass(frozen=True)
class Report:
    """One policy over the seeds."""

    policy: str
    shares: tuple[float, ...]
    took_s: float
    published: float | None

    @property
    def share(self) -> float:
        """The mean."""
        return fmean(self.shares)

    def as_json(self) -> dict[str, object]:
        """By the names that all workloads use; null for what has no meaning without time."""
        return {field.name: None for field in fields(Figures)} | {
            "allocated_share": self.share,
            "allocated_share_min": min(self.shares),
            "allocated_share_max": max(self.shares),
            "published_allocated_share": self.published,
            "seeds": len(self.shares),
            "simulated_in_s": self.took_s,
        }


def chosen(
    names: Sequence[str],
    jobs: Path | None,
    nodes: str | None,
    form: Format | None,
    policies: Sequence[str],
) -> list[Workload]:
    """What to play of what was asked for. Raises `ValueError` where no policy applies."""
    if jobs is None:
        found = [one for one in WORKLOADS if not names or one.name in names]
    elif form is Format.OPENB:
        files = str(jobs.absolute()), str(Path(nodes or "").absolute())
        found = [Workload(jobs.name, *files, {})]
    else:
        found = []
    if found and policies and not set(policies) & set(POLICIES):
        if not names and jobs is None:
            return []
        raise ValueError(f"{found[0].name}: pods are placed by {', '.join(POLICIES)}")
    return found


def show(
    workloads: Sequence[Workload], folder: Path, policies: Sequence[str], processes: int
) -> dict[str, object]:
    """Play them, print a table of each, and give their figures by workload and policy.

    Raises `TableError`.
    """
    loaded = [load(workload, folder) for workload in workloads]
    chosen_policies = [name for name in POLICIES if not policies or name in policies]
    figures: dict[str, object] = {}
    with ProcessPoolExecutor(processes) as workers:
        under_way = [(one, _start(one, chosen_policies, workers)) for one in loaded]
        for one, running in under_way:
            found = list(_reports(one, running))
            say(one, found)
            figures[one.workload.name] = {report.policy: report.as_json() for report in found}
    return figures


Running = list[tuple[str, list[Future[tuple[float, float]]]]]


def _start(loaded: Loaded, policies: Sequence[str], workers: Executor) -> Running:
    return [
        (policy, [workers.submit(play, loaded, policy, seed) for seed in SEEDS])
        for policy in policies
    ]


def _reports(loaded: Loaded, running: Running) -> Iterator[Report]:
    for policy, runs in running:
        shares, took = zip(*(run.result() for run in runs), strict=True)
        yield Report(policy, shares, sum(took), loaded.workload.published.get(policy))


def say(loaded: Loaded, found: Sequence[Report]) -> None:
    """The table of one workload."""
    gpus = sum(machine.gpus for machine in loaded.machines)
    print(
        f"\n{loaded.workload.name}: {len(loaded.pods):,} pods, drawn until they ask for "
        f"{OFFERED:.0%} of {gpus:,} GPUs on {len(loaded.machines):,} nodes"
    )
    print(f"{'policy':<10} {'allocated':>10} {'least':>8} {'most':>8} {'published':>10}")
    for one in found:
        told = f"{one.published:.2%}" if one.published is not None else ""
        least, most = min(one.shares), max(one.shares)
        print(f"{one.policy:<10} {one.share:>10.2%} {least:>8.2%} {most:>8.2%} {told:>10}")
    if "fgd" in loaded.workload.published:
        print(f"{'fgd':<10} {'':>28} {loaded.workload.published['fgd']:>10.2%}")
    took = ", ".join(f"{one.policy} {one.took_s:,.0f} s" for one in found)
    print(f"  simulated in: {took}, {len(SEEDS)} seeds each", flush=True)
