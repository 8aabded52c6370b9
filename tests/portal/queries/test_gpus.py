"""What a tile says of a GPU."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.lifecycle import State
from portal.models import Allocation, Gpu, Job, Lease, Node, Project, User
from portal.queries import gpus
from portal.queries.gpus import Tile, Use
from tests.portal import cast
from tests.portal.cast import NOW

OURS = {"pid": 7, "memory_mib": 9, "user": "carrel", "command": "python"}


@pytest.fixture
def held(alice: User, project: Project, node: Node) -> Allocation:
    """GPU 0 is held by a job that runs since five minutes."""
    return cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)


def look(node: Node, index: int = 0, **sample: object) -> Tile:
    Gpu.objects.filter(node=node, index=index).update(**sample)
    node.refresh_from_db()
    return gpus.tile(gpus.with_leases().get(node=node, index=index), node, NOW)


def jobs_on(tile: Tile) -> list[tuple[Job, int, int]]:
    return [(one.job, one.parts, one.of) for one in tile.holders]


@pytest.fixture
def shared(alice: User, project: Project, node: Node) -> list[Allocation]:
    """GPU 0 is divided into four parts; one job has the first, another one two more."""
    gpu = node.gpus.get(index=0)
    Gpu.objects.filter(pk=gpu.pk).update(shards=4)
    found = []
    for shares in ((0,), (1, 2)):
        part = cast.run(cast.job(alice, project, state=State.RUNNING), node)
        for share in shares:
            Lease.objects.create(gpu=gpu, share=share, of=4, allocation=part)
        found.append(part)
    return found


def test_one_that_jobs_share(node: Node, shared: list[Allocation]) -> None:
    one, two = shared
    tile = look(node, processes=[OURS | {"run_key": two.key}])
    assert jobs_on(tile) == [(one.attempt.job, 1, 4), (two.attempt.job, 2, 4)]
    assert (tile.use, tile.free_parts, tile.strangers) == (Use.USED, 1, ())
    assert not tile.idle, "one of them is at work"
    assert look(node, processes=[]).idle


def test_a_free_one(node: Node) -> None:
    tile = look(node)
    assert (tile.use, tile.holders, tile.odd, tile.stale) == (Use.FREE, (), False, False)


def test_one_at_work(node: Node, held: Allocation) -> None:
    tile = look(node, utilization_pct=90, processes=[OURS | {"run_key": held.key}])
    assert (tile.use, jobs_on(tile), tile.odd) == (Use.USED, [(held.attempt.job, 1, 1)], False)


def test_one_that_is_held_and_not_used(node: Node, held: Allocation) -> None:
    assert look(node).idle
    assert look(node, utilization_pct=None).idle, "a card that does not tell, with no process"


def test_a_process_that_does_nothing_just_now_is_use_enough(node: Node, held: Allocation) -> None:
    assert not look(node, processes=[OURS | {"run_key": held.key}]).idle


def test_a_job_gets_time_to_begin(node: Node, held: Allocation) -> None:
    Allocation.objects.update(started_at=NOW - timedelta(seconds=30))
    assert not look(node).idle


def test_a_released_lease_holds_nothing(node: Node, held: Allocation) -> None:
    held.leases.update(released_at=NOW)
    assert look(node).use == Use.FREE


@pytest.mark.parametrize(
    "columns", [{"drained": True}, {"health": "UNREACHABLE"}, {"health": "NEW"}]
)
def test_one_out_of_service(node: Node, columns: dict[str, object]) -> None:
    Node.objects.update(**columns)
    assert look(node).use == Use.OUT


def test_a_process_of_no_job(node: Node, held: Allocation) -> None:
    stranger = OURS | {"pid": 99, "run_key": None, "user": None}
    tile = look(node, utilization_pct=50, processes=[OURS | {"run_key": held.key}, stranger])
    assert [(found.pid, found.job_id) for found in tile.strangers] == [(99, None)]
    assert tile.odd


def test_a_process_of_a_job_that_does_not_hold_it(node: Node, held: Allocation) -> None:
    tile = look(node, index=1, processes=[OURS | {"run_key": held.key}])
    assert tile.use == Use.FREE
    assert [found.job_id for found in tile.strangers] == [held.attempt.job_id]


@pytest.mark.parametrize("key", ["", "j", "j²", "j².a1", "x7.a1", f"j{'9' * 5000}.a1", "\n"])
def test_a_process_that_makes_up_its_job(node: Node, key: str) -> None:
    tile = look(node, processes=[OURS | {"run_key": key}])
    assert [found.job_id for found in tile.strangers] == [None]


def test_old_figures(node: Node) -> None:
    assert look(node, sampled_at=NOW - timedelta(minutes=2)).stale
    assert look(node, sampled_at=None).stale


def test_capacity_by_partition_and_model(node: Node, held: Allocation) -> None:
    other = cast.node("gpu-2", gpus=2, drained=True)
    other.gpus.update(model="NVIDIA H100 80GB HBM3")
    other.gpus.filter(index=1).update(present=False)
    found = [(kind.model, kind.total, kind.used, kind.out, kind.free) for kind in gpus.capacity()]
    assert found == [
        ("NVIDIA A100-SXM4-80GB", 4, 1, 0, 3),
        ("NVIDIA H100 80GB HBM3", 1, 0, 1, 0),
    ]
