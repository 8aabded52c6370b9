"""A change beside the lab as it is: two projects on one node, worked by hand."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota, Scope
from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.simulate.changes import (
    ChangeError,
    Changes,
    NodesChange,
    ProjectChange,
    changed_nodes,
    changed_policy,
    changed_workload,
    kinds,
)
from jobs.scheduler.simulate.compare import Comparison, compare, play
from jobs.scheduler.simulate.quota_change import QuotaChange
from jobs.spec import Resources
from tests.jobs.scheduler.simulate.workloads import nodes, trial, workload

FIRST = Policy(Order.SUBMISSION)
A, B = 1, 2
# One node of 8 GPUs, and project A may use 4 at once. Each job takes 4 GPUs for 100 s.
JOBS = (
    trial(1, 0, 100, 4, project_id=A, request_s=100),
    trial(2, 0, 100, 4, project_id=A, request_s=100),
    trial(3, 0, 100, 4, project_id=B, request_s=100),
    trial(4, 50, 100, 4, project_id=B, request_s=100),
)
LAB = workload(
    JOBS, 1, projects=(Project(A, "a", None), Project(B, "b", None)),
    quotas=(Quota(A, Limits(gpus=4)),),
)  # fmt: skip
KIND = "p: 8 x GPU"


def tried(*quotas: QuotaChange, **more: object) -> Comparison:
    return compare(LAB, FIRST, Changes(quotas=quotas, **more), lambda part: None)


def test_a_larger_quota_takes_from_the_other_project() -> None:
    # As it is: 1 and 3 at 0; 2 and 4 at 100. With 8 GPUs for A: 1 and 2 at 0; 3 and 4 at 100.
    both = tried(QuotaChange(A, gpus=8))
    now, then = both.now.figures, both.then.figures
    assert (now.projects["a"].mean_wait_s, now.projects["b"].mean_wait_s) == (50, 25)
    assert (then.projects["a"].mean_wait_s, then.projects["b"].mean_wait_s) == (0, 75)
    assert now.mean_wait_s == then.mean_wait_s == 37.5
    # Slowdowns as it is: 1 and 2, so 1/1.5; 1 and 1.5, so 1/1.25.
    assert now.projects["a"].speed == pytest.approx(1 / 1.5)
    assert now.projects["b"].speed == pytest.approx(1 / 1.25)
    assert then.projects["b"].speed == pytest.approx(1 / 1.75)
    assert now.fairness > then.fairness
    assert (both.now.refused, both.then.refused) == (0, 0)


def test_who_waited_for_one_that_is_refused_waits_for_whom_that_one_waited_for() -> None:
    after = {2: (1,), 3: (2,), 4: (3,)}
    sizes = {1: 1, 2: 8, 3: 8, 4: 1}
    jobs = tuple(
        replace(trial(n, 0, 100, gpus, project_id=A, request_s=100), after=after.get(n, ()))
        for n, gpus in sizes.items()
    )
    side = play(replace(LAB, jobs=jobs), FIRST, lambda part: None)
    assert (side.refused, side.figures.jobs) == (2, 2)
    assert side.figures.makespan_s == 200


def test_no_limit_is_as_a_large_one() -> None:
    assert tried(QuotaChange(A, lifted=("gpus",))).then == tried(QuotaChange(A, gpus=8)).then


def test_a_quota_that_forbids_jobs_counts_them_and_the_others_have_the_node() -> None:
    both = tried(QuotaChange(A, gpus=2))
    assert (both.then.refused, both.then.figures.jobs, both.then.figures.mean_wait_s) == (2, 2, 0)
    assert both.then.figures.projects.keys() == {"b"}
    assert both.differ == {"a": 2}, "the figures are not of the same jobs"
    assert tried(QuotaChange(A, gpus=8)).differ == {}


def test_as_many_jobs_may_be_others() -> None:
    """As it is A may not start, with the change B."""
    lab = replace(LAB, quotas=(Quota(A, Limits(gpus=2)),))
    to_b = (QuotaChange(A, lifted=("gpus",)), QuotaChange(B, gpus=2))
    both = compare(lab, FIRST, Changes(quotas=to_b), lambda part: None)
    assert (both.now.refused, both.then.refused) == (2, 2)
    assert both.differ == {"a": 2, "b": 2}


def test_who_waited_for_one_that_quotas_leave_too_few_gpus_of_a_model_is_played() -> None:
    """Two nodes have the model that is allowed on one of them only."""
    first, second = nodes(2)
    gpus = tuple(replace(gpu, model="other") for gpu in second.gpus)
    pair = Resources(nodes=2, gpus_per_node=1)
    jobs = (
        replace(trial(1, 0, 100, 2, project_id=A, request_s=100), resources=pair),
        replace(trial(2, 0, 100, 1, project_id=A, request_s=100), after=(1,)),
    )
    lab = replace(
        LAB, nodes=(first, replace(second, gpus=gpus)), jobs=jobs,
        quotas=(Quota(A, Limits(gpu_models=frozenset({first.gpus[0].model}))),),
    )  # fmt: skip
    side = play(lab, FIRST, lambda part: None)
    assert (side.never, side.figures.jobs) == ({1}, 1)


def test_how_many_may_wait_is_not_played_and_refuses_nobody() -> None:
    side = play(replace(LAB, quotas=(Quota(A, Limits(jobs_pending=0)),)), FIRST, lambda part: None)
    assert (side.refused, side.figures.jobs) == (0, 4)


def test_another_node_and_one_less() -> None:
    assert tried(nodes=(NodesChange(KIND, 1),)).then.figures.projects["b"].mean_wait_s == 0
    gone = tried(nodes=(NodesChange(KIND, -1),)).then
    assert (gone.refused, gone.figures.jobs, gone.figures.mean_wait_s) == (4, 0, 0)


def test_who_lends_runs_on_what_the_other_leaves() -> None:
    lab = replace(LAB, quotas=(*LAB.quotas, Quota(B, Limits(gpus=4))), jobs=JOBS[:2])
    both = compare(lab, FIRST, Changes(lends_at_top=True), lambda part: None)
    assert both.now.figures.projects["a"].mean_wait_s == 50
    assert both.then.figures.projects["a"].mean_wait_s == 0


def test_shares_turn_the_order_by_priority() -> None:
    # Whoever is second waits for the first, who fills the node.
    jobs = tuple(
        trial(n, at, 100, 8, project_id=p, user_id=p, request_s=100)
        for n, at, p in ((1, 0, A), (2, 1, B), (3, 2, A), (4, 3, B), (5, 4, A))
    )
    lab = replace(LAB, jobs=jobs, quotas=())
    both = compare(
        lab, Policy(Order.PRIORITY), Changes(projects=(ProjectChange(A, shares=1000),)),
        lambda part: None,
    )  # fmt: skip
    ahead = both.now.figures.projects["a"].mean_wait_s - both.then.figures.projects["a"].mean_wait_s
    assert ahead > 0


def test_the_part_that_is_done_only_grows_and_comes_to_all() -> None:
    parts: list[float] = []
    compare(LAB, FIRST, Changes(reservations=1), parts.append)
    assert parts == sorted(parts) and parts[-1] == 1


def test_what_told_raises_ends_it() -> None:
    def stop(part: float) -> None:
        raise KeyError(part)

    with pytest.raises(KeyError):
        compare(LAB, FIRST, Changes(reservations=1), stop)


def test_what_only_fills_the_cluster_is_in_no_figure() -> None:
    filling = trial(9, -40, 100, 8, project_id=B, request_s=100, counts=False)
    side = play(replace(LAB, jobs=(filling, *JOBS)), FIRST, lambda part: None)
    # It leaves at 60: 1 and 3 begin then, 2 and 4 at 160.
    assert side.figures.jobs == 4
    assert side.figures.mean_wait_s == (60 + 160 + 60 + 110) / 4
    # GPUs are in use whoever has them: until 50, the last submission, it held all.
    assert side.figures.allocated_share == 1


def test_changes_come_back_from_json() -> None:
    changes = Changes(
        Order.SHORTEST, Backfill.EASY, 3, True, (ProjectChange(A, 7, True),),
        (NodesChange(KIND, -1),),
        (
            QuotaChange(
                A, Scope.USER, Band.BATCH, 2.5, 3, 60, 0.5, 7, ("p",), ("GPU",), ("jobs_running",)
            ),
            QuotaChange(B),
        ),
    )  # fmt: skip
    assert Changes.read(json.loads(json.dumps(asdict(changes)))) == changes
    assert Changes.read(asdict(Changes())) == Changes()


def test_what_an_older_version_kept_is_read() -> None:
    kept = asdict(Changes())
    del kept["quotas"]
    kept["projects"] = [
        {"project_id": A, "gpus": 2.5, "unlimited": False, "shares": 7, "lends": None},
        {"project_id": B, "gpus": None, "unlimited": True, "shares": None, "lends": None},
        {"project_id": 3, "gpus": None, "unlimited": False, "shares": None, "lends": True},
    ]
    assert Changes.read(kept) == Changes(
        projects=(ProjectChange(A, 7), ProjectChange(B), ProjectChange(3, lends=True)),
        quotas=(QuotaChange(A, gpus=2.5), QuotaChange(B, lifted=("gpus",))),
    )


def test_the_policy_is_changed_where_it_is_said() -> None:
    policy = changed_policy(FIRST, Changes(backfill=Backfill.NONE, reservations=2))
    assert policy == Policy(Order.SUBMISSION, backfill=Backfill.NONE, reservations=2)


def test_new_nodes_are_as_the_first_of_their_kind_and_have_gpus_of_their_own() -> None:
    found = changed_nodes((*nodes(2), *nodes(1, "q", 3)), (NodesChange(KIND, 2),))
    assert {kind: len(alike) for kind, alike in kinds(found).items()} == {KIND: 4, "q: 8 x GPU": 1}
    assert len({node.id for node in found}) == len({node.name for node in found}) == 5
    assert len({gpu.uuid for node in found for gpu in node.gpus}) == 40


def test_nodes_with_the_same_gpus_are_told_apart_by_what_they_differ_in() -> None:
    first, second, third, other = nodes(4)
    large = {"cpus": 64, "memory_mib": 102_400}
    found = kinds((
        replace(first, **large), replace(third, **large, features=("nvme", "ib")),
        replace(second, **large, name="n9"), replace(other, partition="q"),
    ))  # fmt: skip
    assert {kind: [node.name for node in alike] for kind, alike in found.items()} == {
        "p: 8 x GPU, ib and nvme": ["n3"],
        "p: 8 x GPU, no features": ["n1", "n9"],
        "q: 8 x GPU": ["n4"],
    }
    small = replace(second, cpus=1, memory_mib=1024)
    assert list(kinds((small, replace(first, **large)))) == [
        "p: 8 x GPU, 1 CPU, 1 GiB", "p: 8 x GPU, 64 CPUs, 100 GiB",
    ]  # fmt: skip


def test_nodes_whose_gpus_are_shared_are_a_kind_of_their_own() -> None:
    whole, shared = nodes(2)
    gpus = tuple(replace(gpu, shards=4 if gpu.index < 2 else 0) for gpu in shared.gpus)
    found = changed_nodes(
        (whole, replace(shared, gpus=gpus)), (NodesChange("p: 6 x GPU, 2 x GPU in 4 parts", 1),)
    )
    assert [[gpu.shards for gpu in node.gpus].count(4) for node in found] == [2, 2, 0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (Changes(projects=(ProjectChange(7, shares=1),)), "One of the projects is gone."),
        (Changes(quotas=(QuotaChange(7, gpus=1),)), "One of the projects is gone."),
        (Changes(quotas=(QuotaChange(A, gpus=-1),)), "Gpus must be a number from 0"),
        (Changes(nodes=(NodesChange("p: 4 x A", 1),)), "There are no nodes of the kind 'p: 4 x A'"),
        (Changes(nodes=(NodesChange(KIND, -2),)), "2 nodes cannot go: of p: 8 x GPU there are 1."),
        (Changes(nodes=(NodesChange(KIND, 1001),)), "At most 1,000 nodes can be added, not 1,001."),
        (Changes(projects=(ProjectChange(A, shares=-1),)), "Shares are from 0 to 1,000,000,000"),
    ],
)
def test_what_cannot_be_changed_is_told(changes: Changes, said: str) -> None:
    with pytest.raises(ChangeError) as told:
        changed_workload(LAB, changes)
    assert str(told.value).startswith(said)
