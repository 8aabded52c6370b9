"""Quotas in a simulation: they span partitions, and count what jobs hold."""

from __future__ import annotations

from dataclasses import replace

from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.spec import Resources
from tests.jobs.scheduler.simulate.workloads import (
    PUSHED,
    lending,
    nodes,
    played,
    starts,
    trial,
    workload,
)


def test_a_quota_counts_in_all_partitions_and_what_ends_in_one_lets_another_go_on() -> None:
    jobs = (
        trial(1, 0, 100, 8, project_id=1),
        trial(2, 10, 10, 8, project_id=1, partition="q"),
    )  # fmt: skip
    cluster = (*nodes(1), *nodes(1, "q", 2))
    labs = (Project(1, "lab", None),)
    work = workload(jobs, cluster, projects=labs, quotas=(Quota(1, Limits(gpus=8)),))
    assert starts(played(work, PUSHED)) == {1: 0, 2: 100}


def test_what_is_lent_in_one_partition_is_taken_back_for_another() -> None:
    jobs = (
        trial(1, 0, 100, 8, project_id=1),
        trial(2, 1, 100, 8, project_id=1),
        trial(3, 50, 10, 8, project_id=2, partition="q"),
    )  # fmt: skip
    cluster = (*nodes(2), *nodes(1, "q", 3))
    work = replace(lending(jobs, 1, 1), nodes=cluster)
    simulation = played(work, PUSHED)
    assert starts(simulation) == {1: 0, 2: 1, 3: 50}
    assert simulation.runs[2].preemptions == 1


def test_parts_of_a_gpu_and_whole_nodes_leave_as_much_of_a_quota_as_they_took() -> None:
    quarter, whole = Resources(shards=1), Resources(gpus_per_node=1, exclusive=True)
    parted = replace(nodes(1)[0], gpus=tuple(replace(gpu, shards=4) for gpu in nodes(1)[0].gpus))
    labs = (Project(1, "lab", None),)
    for resources, gpus in ((quarter, 0.25), (whole, 1)):
        jobs = tuple(
            replace(trial(n, 20 * n, 10, gpus, project_id=1), resources=resources)
            for n in range(1, 41)
        )
        work = workload(jobs, (parted,), projects=labs, quotas=(Quota(1, Limits(gpus=8)),))
        simulation = played(work, PUSHED)
        assert starts(simulation) == {n: 20 * n for n in range(1, 41)}
        held = 8 if resources.exclusive else 0.25
        assert {run.gpus for run in simulation.runs.values()} == {held}
