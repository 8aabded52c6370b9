"""The figures of a workload whose ends are known by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.simulate.measure import Figures, figures, jain, quantile
from jobs.scheduler.simulate.policies import NAMED, BestEffort, Known, PolicyError, SimPolicy, Walls
from jobs.scheduler.simulate.run import Simulation
from jobs.scheduler.simulate.scenario import POOL
from jobs.scheduler.simulate.scenario import workload as scenario
from jobs.scheduler.simulate.tell import as_json, table
from jobs.scheduler.simulate.traces import Cluster, Recorded
from tests.jobs.scheduler.simulate.workloads import lending, played, trial, workload


def measured() -> Figures:
    """Two nodes; a gang has to wait for both, and the last job for the gang."""
    jobs = (
        trial(1, 0, 100, 8, project_id=1),
        trial(2, 0, 5, 4, project_id=1),
        trial(3, 10, 90, 16, project_id=2),
        trial(4, 20, 5, 8, project_id=2),
    )
    labs = (Project(1, "a", None), Project(2, "b", None))
    return figures(played(workload(jobs, 2, projects=labs), NAMED["fifo"].policy))


def test_by_hand() -> None:
    found = measured()
    # Waits 0, 0, 90 and 170; times 100, 5, 180 and 175.
    assert found.jobs == 4
    assert found.mean_wait_s == 65 and found.median_wait_s == 45 and found.max_wait_s == 170
    assert found.p99_wait_s == pytest.approx(90 + 0.97 * 80)
    assert found.mean_completion_s == 115 and found.median_completion_s == 137.5
    assert found.mean_wait_gang_s == 90 and found.p99_wait_gang_s == 90
    assert found.makespan_s == 195
    # Until 20, when the last is submitted: 8 GPUs for 20 s and 4 for 5 s, of 16 for 20 s.
    assert found.allocated_share == pytest.approx((160 + 20) / 320)
    assert found.preemptions == 0 and found.lost_gpu_hours == 0
    # Slowdowns 1, 1 (5 s count as 10), 180 / 90 and 175 / 10.
    assert found.mean_slowdown == pytest.approx((1 + 1 + 2 + 17.5) / 4)
    assert found.projects["a"].slowdown == 1 and found.projects["b"].slowdown == 9.75
    speed = 1 / 9.75
    assert found.fairness == pytest.approx((1 + speed) ** 2 / (2 * (1 + speed**2)))
    assert found.slowest_project_speed == pytest.approx(speed)
    assert (found.projects["b"].jobs, found.projects["b"].mean_wait_s) == (2, 130)


def test_lost_work_is_what_restarts_took() -> None:
    jobs = (
        trial(1, 0, 100, 8, project_id=1),
        trial(2, 1, 100, 8, project_id=1),
        trial(3, 50, 10, 8, project_id=2),
    )
    policy = SimPolicy("lent", NAMED["easy"].policy, Known.TRUE, Walls.LENT)
    found = figures(played(lending(jobs, 1, 1), policy.policy))
    assert found.preemptions == 1 and found.lost_gpu_hours == pytest.approx(8 * 40 / 3600)


def test_the_bands_apart() -> None:
    jobs = (
        trial(1, 0, 100, 8, band=Band.BEST_EFFORT),
        trial(2, 0, 100, 8, band=Band.PRODUCTION),
        trial(3, 0, 100, 8, band=Band.PRODUCTION),
    )
    found = figures(played(workload(jobs, 1), NAMED["fifo"].policy)).bands
    assert list(found) == ["production", "best-effort"]
    assert (found["production"].jobs, found["production"].mean_wait_s) == (2, 50)
    assert (found["best-effort"].jobs, found["best-effort"].mean_wait_s) == (1, 200)


def bands(best_effort: BestEffort, jobs: tuple[Recorded, ...]) -> list[Band]:
    policy = SimPolicy("p", best_effort=best_effort)
    return [job.band for job in scenario("r", jobs, CLUSTER, policy).jobs]


def test_half_of_the_jobs_are_best_effort_by_a_hash_of_their_number() -> None:
    found = bands(BestEffort.JOBS, RECORDED * 40)
    # Of 1 and 2 the SHA-256 begins with 6b and d4.
    assert found[:2] == [Band.BEST_EFFORT, Band.PRODUCTION]
    assert 40 <= found.count(Band.BEST_EFFORT) <= 80
    assert set(found) == {Band.BEST_EFFORT, Band.PRODUCTION}


def test_half_of_the_users_are_or_of_the_projects() -> None:
    # "cyd" begins with c0, "eve" with 85, and "v1" with 3b.
    best, rest = Band.BEST_EFFORT, Band.PRODUCTION
    first, *others = RECORDED
    users = (replace(first, user="cyd"), *(replace(job, user="eve") for job in others))
    assert bands(BestEffort.USERS, users) == [rest, best, best]
    projects = (replace(first, user=""), replace(first, user="", project="cyd"))
    assert bands(BestEffort.USERS, projects) == [best, rest]
    assert set(bands(BestEffort.NONE, RECORDED)) == {Band.BATCH}


def test_jain() -> None:
    assert jain([3, 3, 3]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([]) == 1


@given(st.lists(st.integers(0, 1000), min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_numpy_s(values: list[int], share: float) -> None:
    assert quantile(values, share) == pytest.approx(numpy.quantile(values, share))


def test_table_and_json() -> None:
    found = measured()
    lines = table([("first", found), ("a longer name", found)]).splitlines()
    assert len(lines) == 4 and lines[1].startswith("policy")
    assert lines[3].startswith("a longer name") and "65.0" in lines[3]
    known = json.loads(json.dumps(as_json(found)))
    for name in ("mean_wait_s", "p99_wait_s", "mean_completion_s", "mean_wait_gang_s", "fairness",
                 "allocated_share", "preemptions", "lost_gpu_hours"):  # fmt: skip
        assert isinstance(known[name], float | int)
    assert known["projects"]["b"]["mean_wait_s"] == 130


RECORDED = (
    Recorded(0, 10, 8, "v1", "v1", "ann"),
    Recorded(0, 10, 8, "v1", "v1", "bob"),
    Recorded(5, 10, 8, "v2", "v2", "ann"),
)
CLUSTER = Cluster({"v1": 1, "v2": 1})


def waits(walls: Walls, cluster: Cluster = CLUSTER) -> dict[int, float]:
    policy = SimPolicy("p", NAMED["easy"].policy, Known.TRUE, walls)
    work = scenario("r", RECORDED, cluster, policy)
    simulation = Simulation(work, policy.policy, policy.start_lengths())
    simulation.play()
    return {job_id: run.wait_s for job_id, run in simulation.runs.items()}


def test_walls() -> None:
    assert waits(Walls.HARD) == {1: 0, 2: 10, 3: 0}
    assert waits(Walls.POOL) == {1: 0, 2: 0, 3: 5}
    # v2 takes back its own from the younger of v1's: five of ten seconds are left, and a restart.
    assert waits(Walls.LENT) == {1: 0, 2: 5, 3: 0}


def test_projects_and_partitions() -> None:
    hard = scenario("r", RECORDED, CLUSTER, SimPolicy("p", walls=Walls.HARD))
    assert [job.partition for job in hard.jobs] == ["v1", "v1", "v2"] and not hard.quotas
    lent = scenario("r", RECORDED, CLUSTER, SimPolicy("p", walls=Walls.LENT))
    assert {job.partition for job in lent.jobs} == {POOL}
    assert [job.user_id for job in lent.jobs] == [1, 2, 1]
    assert {quota.project_id: quota.limits.gpus for quota in lent.quotas} == {1: 8, 2: 8}


def test_the_nodes_of_a_part_without_jobs_are_lent() -> None:
    assert waits(Walls.LENT, Cluster({"v1": 1, "v2": 1, "v3": 1})) == {1: 0, 2: 0, 3: 0}


def test_of_a_number_of_nodes_nobody_has_any_to_lend() -> None:
    with pytest.raises(PolicyError, match="p: with walls lent the cluster must be a table "):
        scenario("r", RECORDED, Cluster({"": 2}), SimPolicy("p", walls=Walls.LENT))


@pytest.mark.parametrize("known", [Known.REQUESTED, Known.WITHIN])
def test_requested_times_have_to_be_known(known: Known) -> None:
    with pytest.raises(PolicyError, match="p: r does not tell what time its users asked for"):
        scenario("r", RECORDED, CLUSTER, SimPolicy("p", lengths=known))
