"""What must hold for every cluster, not only for those we thought of."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.lifecycle import Reason
from jobs.scheduler.fit import could_hold, refuse
from jobs.scheduler.forecast import endings, opening
from jobs.scheduler.gpu_models import is_model
from jobs.scheduler.plan import plan
from jobs.scheduler.room import Room
from jobs.scheduler.snapshot import DependencyState, Node, Pending, Placement, Snapshot
from jobs.spec import Resources
from tests.jobs.scheduler.clusters import NOW, ended, resources, snapshots

OWN_WAITS = {
    Reason.HELD_USER,
    Reason.DEPENDENCY,
    Reason.DEPENDENCY_NEVER,
    Reason.BEGIN_TIME,
    Reason.ARRAY_LIMIT,
}
many = settings(max_examples=40, deadline=None)


@many
@given(snapshots())
def test_nothing_is_given_twice_and_no_node_gives_more_than_it_has(snapshot: Snapshot) -> None:
    decided = plan(snapshot, NOW)
    free = {g.uuid for node in snapshot.nodes for g in node.gpus if g.job_id is None}
    given_away = [
        uuid for start in decided.starts for part in start.placements for uuid in part.gpu_uuids
    ]
    assert set(given_away) <= free
    assert len(given_away) == len(set(given_away))
    cpus: Counter[int] = Counter()
    memory: Counter[int] = Counter()
    for start in decided.starts:
        for part in start.placements:
            cpus[part.node_id] += part.cpus
            memory[part.node_id] += part.memory_mib
    for node in snapshot.nodes:
        assert cpus[node.id] <= node.cpus_free
        assert memory[node.id] <= node.memory_free_mib


@many
@given(snapshots())
def test_a_job_gets_all_its_nodes_and_exactly_what_it_asked_for(snapshot: Snapshot) -> None:
    nodes = {node.id: node for node in snapshot.nodes}
    jobs = {job.id: job for job in snapshot.pending}
    for start in plan(snapshot, NOW).starts:
        job = jobs[start.job_id]
        asked = job.resources
        assert len({part.node_id for part in start.placements}) == asked.nodes
        assert len(start.placements) == asked.nodes
        for part in start.placements:
            node = nodes[part.node_id]
            models = {gpu.uuid: gpu.model for gpu in node.gpus}
            assert node.partition == job.partition and not node.unavailable
            assert could_hold(node, asked)
            if asked.exclusive:
                assert not node.jobs and len(part.gpu_uuids) == len(node.gpus)
            else:
                assert len(part.gpu_uuids) == asked.gpus_per_node
                assert part.cpus == asked.cpus
                for wanted in filter(None, [asked.gpu_model]):
                    assert all(is_model(wanted, models[uuid]) for uuid in part.gpu_uuids)


@many
@given(snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_input_means_nothing(snapshot: Snapshot, shuffler: random.Random) -> None:
    def shuffled(items: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(shuffler.sample(items, len(items)))

    nodes = tuple(replace(node, gpus=shuffled(node.gpus)) for node in snapshot.nodes)
    other = Snapshot(shuffled(nodes), shuffled(snapshot.pending), shuffled(snapshot.running))
    assert plan(other, NOW) == plan(snapshot, NOW)


@many
@given(snapshots())
def test_every_pending_job_starts_expires_or_is_told_why_it_waits(snapshot: Snapshot) -> None:
    decided = plan(snapshot, NOW)
    told = [start.job_id for start in decided.starts]
    told += [*decided.expired, *decided.explanations]
    assert sorted(told) == sorted(job.id for job in snapshot.pending)
    for found in decided.explanations.values():
        assert found.reason is not Reason.NONE
        assert found.detail.endswith(".") and found.detail[0].isupper()


@many
@given(snapshots())
def test_first_come_first_served_against_a_naive_oracle(snapshot: Snapshot) -> None:
    """Walk the queue by hand over the plan's own placements: the plan must agree at each step."""
    decided = plan(snapshot, NOW)
    starts = {start.job_id: start for start in decided.starts}
    left = {node.id: node for node in snapshot.nodes}
    blocked: set[str] = set()
    for job in sorted(snapshot.pending, key=lambda job: (job.submitted_at, job.id)):
        why = decided.explanations.get(job.id)
        if job.id in decided.expired or (why and why.reason in OWN_WAITS):
            continue
        members = [node for node in left.values() if node.partition == job.partition]
        able = [
            node for node in members if could_hold(node, job.resources) and not node.unavailable
        ]
        if len(able) < job.resources.nodes:
            assert why is not None
            assert why.reason in {Reason.BAD_CONSTRAINTS, Reason.NODE_DOWN, Reason.PARTITION_DOWN}
            continue
        fits = sum(_fits(node, job.resources) for node in able) >= job.resources.nodes
        assert (job.id in starts) == (fits and job.partition not in blocked)
        if job.id in starts:
            for part in starts[job.id].placements:
                left[part.node_id] = _after(left[part.node_id], part, job)
        else:
            expected = Reason.PRIORITY if job.partition in blocked else Reason.RESOURCES
            assert why is not None and why.reason is expected
            blocked.add(job.partition)


def _fits(node: Node, asked: Resources) -> bool:
    wanted = [name for name in asked.features if name not in node.features]
    wanted += [asked.gpu_model] if asked.gpu_model else []
    free = [g for g in node.gpus if g.job_id is None and all(is_model(w, g.model) for w in wanted)]
    return (
        not node.exclusive
        and not (asked.exclusive and node.jobs)
        and len(free) >= asked.gpus_per_node
        and node.cpus_free >= asked.cpus
        and node.memory_free_mib >= (asked.memory_mib or -1_000_000)
    )


def _after(node: Node, part: Placement, job: Pending) -> Node:
    return replace(
        node,
        gpus=tuple(replace(g, job_id=job.id) if g.uuid in part.gpu_uuids else g for g in node.gpus),
        cpus_free=node.cpus_free - part.cpus,
        memory_free_mib=node.memory_free_mib - part.memory_mib,
        jobs=(*node.jobs, job.id),
        exclusive=job.resources.exclusive,
    )


@many
@given(snapshots())
def test_waits_of_its_own_are_told_only_when_they_are_so(snapshot: Snapshot) -> None:
    decided = plan(snapshot, NOW)
    for job in snapshot.pending:
        length = timedelta(seconds=job.walltime_s)
        late = (
            job.deadline_at is not None and max(NOW, job.begin_at or NOW) + length > job.deadline_at
        )
        assert (job.id in decided.expired) == late
        if late:
            continue
        why = decided.explanations.get(job.id)
        kept_back = (
            job.held
            or job.dependency in {DependencyState.WAITING, DependencyState.NEVER}
            or (job.begin_at is not None and job.begin_at > NOW)
        )
        if kept_back:
            assert why is not None and why.reason in OWN_WAITS
        if why is not None and why.reason is Reason.ARRAY_LIMIT:
            tasks = [run for run in snapshot.running if run.array_id == job.array_id]
            begun = {start.job_id for start in decided.starts}
            tasks_begun = [p for p in snapshot.pending if p.id in begun and p.array_id == 7]
            assert job.array_limit is not None
            assert len(tasks) + len(tasks_begun) >= job.array_limit


@many
@given(snapshots(busy=True), resources(most_nodes=2, most_gpus=4))
def test_a_foretold_opening_comes_true_and_not_before(snapshot: Snapshot, asked: Resources) -> None:
    job = Pending(999, NOW, asked, 60, "gpu")
    alone = replace(snapshot, pending=(job,))
    why = plan(alone, NOW).explanations.get(999)
    if why is None or why.reason is not Reason.RESOURCES:
        return
    rooms = [Room(node) for node in snapshot.nodes if could_hold(node, asked)]
    found = opening(asked, rooms, endings(snapshot.running, rooms))
    assert found is not None, "all that is held has an end here"
    by_then = [job.id for job in snapshot.running if job.ends_by <= found.at]
    before = [job.id for job in snapshot.running if job.ends_by < found.at]
    assert plan(ended(alone, by_then), NOW).starts
    assert not plan(ended(alone, before), NOW).starts


@many
@given(snapshots(), resources())
def test_refused_means_that_even_an_empty_cluster_would_not_do(
    snapshot: Snapshot, asked: Resources
) -> None:
    emptied = ended(snapshot, [job.id for job in snapshot.running])
    up = tuple(replace(node, unavailable="") for node in emptied.nodes)
    starts = plan(Snapshot(up, (Pending(1, NOW, asked, 60, "gpu"),)), NOW).starts
    assert (refuse(asked, snapshot.nodes, "gpu") is None) == bool(starts)
