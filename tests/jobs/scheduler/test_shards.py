"""Parts of GPUs, and GPUs near each other on a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.scheduler.plan import plan
from jobs.scheduler.snapshot import Gpu, Node, Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import H100, NOW, node, pending, running

Sharers = dict[int, dict[int, int]]


def divided(
    parts: int = 4, sharers: Sharers | None = None, used: dict[int, int] | None = None
) -> Node:
    """4 GPUs of so many parts each; `sharers`: by GPU, how many parts each job has."""
    whole = node(1, used=used)
    cards = tuple(
        replace(gpu, shards=parts, sharers=tuple((sharers or {}).get(gpu.index, {}).items()))
        for gpu in whole.gpus
    )
    jobs = {*whole.jobs, *(job for shared in (sharers or {}).values() for job in shared)}
    return replace(whole, gpus=cards, jobs=tuple(sorted(jobs)))


def active(machine: Node) -> tuple[Running, ...]:
    return tuple(running(job_id, 60, 1) for job_id in machine.jobs)


def one_divided() -> Node:
    """4 GPUs, the first of 4 parts."""
    first, *rest = node(1).gpus
    return replace(node(1), gpus=(replace(first, shards=4), *rest))


# name: the node, who waits -> {job: (GPUs by index, parts)}
CASES: dict[str, tuple[Node, list[Pending], dict[int, tuple[list[int], int]]]] = {
    "one GPU is filled before the next is begun": (
        divided(), [pending(1, shards=1), pending(2, shards=3), pending(3, shards=2)],
        {1: ([0], 1), 2: ([0], 3), 3: ([1], 2)},
    ),
    "the fullest that has room": (
        divided(sharers={0: {50: 1}, 1: {51: 2}}), [pending(1, shards=2)], {1: ([1], 2)},
    ),
    "not beside who has it whole": (
        divided(used={50: 3}), [pending(1, shards=2)], {1: ([3], 2)},
    ),
    "nor whole beside parts": (
        divided(sharers={0: {50: 1}}), [pending(1, 4), pending(2, 3)], {2: ([1, 2, 3], 0)},
    ),
    "not more parts than there are": (
        divided(parts=2), [pending(1, shards=3)], {},
    ),
    "parts of several GPUs do not add up": (
        divided(sharers={at: {50 + at: 3} for at in range(4)}), [pending(1, shards=2)], {},
    ),
    "only where the admin divides": (node(1), [pending(1, shards=1)], {}),
    "whole GPUs are taken from those that are not divided": (
        one_divided(), [pending(1, 2), pending(2, shards=3)], {1: ([1, 2], 0), 2: ([0], 3)},
    ),
    "but what is divided is better than to wait": (
        one_divided(), [pending(1, 4)], {1: ([0, 1, 2, 3], 0)},
    ),
    "of the model asked for": (
        divided(), [pending(1, shards=1, gpu_model="h100")], {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_which_parts(case: str) -> None:
    machine, queue, expected = CASES[case]
    index = {gpu.uuid: gpu.index for gpu in machine.gpus}
    decided = plan(Snapshot((machine,), tuple(queue), active(machine)), NOW)
    assert {
        start.job_id: ([index[uuid] for uuid in part.gpu_uuids], part.shards)
        for start in decided.starts
        for part in start.placements
    } == expected


def test_a_promise_does_not_let_parts_in_beside_who_has_the_gpu_whole() -> None:
    """Parts were once looked for as if nobody was there, where a promise was in the way."""
    machine = divided(used={50: 4})
    queue = (pending(1, 4), pending(2, shards=1, walltime_s=7200))
    assert not plan(Snapshot((machine,), queue, active(machine)), NOW).starts


def test_parts_of_whom_nothing_else_is_known_are_taken_all_the_same() -> None:
    one = replace(divided(sharers={at: {50 + at: 3} for at in range(4)}), jobs=())
    other = replace(one, id=2, name="n2")
    gang = pending(1, nodes=2, shards=2)
    assert not plan(Snapshot((one, other), (gang,), ()), NOW).starts


@pytest.mark.parametrize(
    ("machine", "free", "who"),
    [
        (divided(used={50: 4}), "none is free", "Job 50 makes"),
        (
            divided(sharers={3: {50: 3}}, used={51: 3}),
            "no GPU has more than 1 free",
            "Jobs 50 and 51 make",
        ),
    ],
)
def test_parts_are_told(machine: Node, free: str, who: str) -> None:
    asked = Snapshot((machine,), (pending(1, shards=2),), active(machine))
    assert plan(asked, NOW).explanations[1].detail == (
        f"Needs 2 parts of a shared GPU on one node; {free}. "
        f"{who} room for it on n1 by 13:00 UTC at the latest."
    )


def test_the_closest_node_is_told_where_parts_are_not_all_that_is_missing() -> None:
    full = replace(divided(used={50: 4}), cpus_free=1)
    busy = replace(divided(), id=2, name="n2", cpus_free=1, jobs=(51,))
    asked = pending(1, shards=2, cpus_per_task=2)
    told = plan(Snapshot((full, busy), (asked,), (running(51, 60, 2),)), NOW).explanations[1]
    assert "; the closest, n2, has only 1 CPU free. Job 51 " in told.detail


def _cards(*kinds: tuple[str, int, int | None]) -> tuple[Gpu, ...]:
    """Model, NVLink domain, holder."""
    return tuple(
        Gpu(f"GPU-{index}", index, model, 81_920, holder, domain=domain)
        for index, (model, domain, holder) in enumerate(kinds)
    )


@pytest.mark.parametrize(
    ("domains", "taken", "wanted", "expected"),
    [
        ([0, 0, 1, 1], [], 2, [0, 1]),
        ([0, 0, 1, 1], [0], 2, [2, 3]),
        ([0, 0, 1, 1], [0], 1, [1]),
        ([0, 1, 0, 1], [], 2, [0, 2]),
        ([0, 0, 1, 1], [0], 3, [1, 2, 3]),
        ([0, 0, 0, 1, 1], [], 2, [3, 4]),
    ],
)
def test_gpus_of_one_nvlink_domain(
    domains: list[int], taken: list[int], wanted: int, expected: list[int]
) -> None:
    cards = _cards(*((H100, d, 50 if at in taken else None) for at, d in enumerate(domains)))
    machine = replace(node(1, 0), gpus=cards, jobs=(50,) if taken else ())
    decided = plan(Snapshot((machine,), (pending(1, wanted),), active(machine)), NOW)
    index = {gpu.uuid: gpu.index for gpu in cards}
    assert [index[uuid] for uuid in decided.starts[0].placements[0].gpu_uuids] == expected
