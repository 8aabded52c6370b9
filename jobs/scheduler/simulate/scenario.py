"""A recorded workload and its cluster, with walls between the parts or without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import chain

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.simulate.policies import BestEffort, Known, PolicyError, SimPolicy, Walls
from jobs.scheduler.simulate.traces import Cluster, Recorded
from jobs.scheduler.simulate.workload import GPUS_PER_NODE, Trial, Workload
from jobs.scheduler.snapshot import Gpu, Node

POOL = "all"
"""The one partition where there are no walls."""


def workload(
    name: str, recorded: Iterable[Recorded], cluster: Cluster, policy: SimPolicy
) -> Workload:
    """The jobs as the policy's walls put them into partitions and projects.

    Raises `PolicyError` as `check_told` does.
    """
    jobs = list(recorded)
    check_told(name, jobs, cluster, policy)
    lent = policy.walls is Walls.LENT
    walled = policy.walls is Walls.HARD and len(cluster.nodes) > 1
    # Of a part without jobs everything is lent.
    parts = sorted(cluster.nodes) if lent else []
    projects = _numbers(chain((job.project for job in jobs), parts))
    users = _numbers(job.user for job in jobs)
    return Workload(
        name=name,
        jobs=tuple(
            replace(
                _trial(number, job, job.vc if walled else POOL, projects, users),
                band=_band(policy.best_effort, number, job),
            )
            for number, job in enumerate(jobs, 1)
        ),
        nodes=tuple(_nodes(cluster, walled)),
        projects=tuple(Project(number, vc or POOL, None) for vc, number in projects.items()),
        quotas=_guarantees(cluster, projects) if lent else (),
        lends=frozenset({None}) if lent else frozenset(),
        checkpoints=policy.checkpoints,
    )


def check_told(name: str, jobs: Iterable[Recorded], cluster: Cluster, policy: SimPolicy) -> None:
    """Raises `PolicyError` for what the policy needs to know and the workload does not tell."""
    asks = policy.lengths in (Known.REQUESTED, Known.WITHIN)
    if asks and any(job.request_s is None for job in jobs):
        raise PolicyError(f"{policy.name}: {name} does not tell what time its users asked for")
    if policy.walls is Walls.LENT and "" in cluster.nodes:
        raise PolicyError(
            f"{policy.name}: with walls lent the cluster must be a table with a line for each VC, "
            "not a number of nodes"
        )


def _numbers(words: Iterable[str]) -> dict[str, int]:
    """From 1 on, in the order in which they come; 0 stands for what is not known."""
    found = {"": 0}
    for word in words:
        found.setdefault(word, len(found))
    return found


def _band(best_effort: BestEffort, number: int, job: Recorded) -> Band:
    if best_effort is BestEffort.NONE:
        return Band.BATCH
    who = str(number) if best_effort is BestEffort.JOBS else job.user or job.project
    chosen = sha256(who.encode()).digest()[0] & 1
    return Band.BEST_EFFORT if chosen else Band.PRODUCTION


def _trial(
    number: int, job: Recorded, partition: str, projects: dict[str, int], users: dict[str, int]
) -> Trial:
    return Trial(
        id=number,
        submit_s=round(job.submit_s),
        run_s=job.run_s,
        gpus=job.gpus,
        partition=partition,
        request_s=job.request_s,
        user_id=users[job.user],
        project_id=projects[job.project],
        name=job.name,
    )


def _nodes(cluster: Cluster, walled: bool) -> Iterator[Node]:
    number = 0
    for vc, nodes in cluster.nodes.items():
        for _ in range(nodes):
            number += 1
            yield _node(number, vc if walled else POOL)


def _node(number: int, partition: str) -> Node:
    gpus = tuple(Gpu(f"{number}-{at}", at, "GPU", 1) for at in range(GPUS_PER_NODE))
    return Node(number, f"n{number}", partition, GPUS_PER_NODE, 1, GPUS_PER_NODE, 1, gpus)


def _guarantees(cluster: Cluster, projects: dict[str, int]) -> tuple[Quota, ...]:
    """Each part's own GPUs are its project's; a project without a part has none."""
    return tuple(
        Quota(number, Limits(gpus=cluster.nodes.get(vc, 0) * GPUS_PER_NODE))
        for vc, number in projects.items()
        if vc
    )
