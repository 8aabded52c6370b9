"""Jobs of several nodes: whole or not at all, and near each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.lifecycle import Reason
from jobs.scheduler.plan import plan
from jobs.scheduler.snapshot import Node, Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running

# By leaf: n1 and n2; n3, n4 and n5; n6. The first two leaves are under one switch.
LEAVES = {1: "a", 2: "a", 3: "b", 4: "b", 5: "b", 6: "c"}


def racks(used: dict[int, int] | None = None) -> list[Node]:
    """`used`: how many GPUs of each node are taken, by job 50."""
    found = []
    for number, leaf in LEAVES.items():
        above = "left" if leaf in "ab" else "right"
        taken = {50: (used or {})[number]} if number in (used or {}) else None
        found.append(node(number, used=taken, switches=(leaf, above, "top")))
    return found


# name: GPUs taken, who waits -> {job: nodes}
CASES: dict[str, tuple[dict[int, int], list[Pending], dict[int, list[int]]]] = {
    "under one leaf, the smallest that is enough": ({}, [pending(1, 4, nodes=2)], {1: [1, 2]}),
    "larger groups stay whole": (
        {}, [pending(1, 4), pending(2, 4, nodes=3)], {1: [1], 2: [3, 4, 5]},
    ),
    "under as low a switch as will do": ({}, [pending(1, 4, nodes=4)], {1: [1, 3, 4, 5]}),
    "over all if need be": ({}, [pending(1, 4, nodes=6)], {1: [1, 2, 3, 4, 5, 6]}),
    "not over more leaves than allowed": (
        {3: 1, 4: 1}, [pending(1, 4, nodes=3, max_switches=1)], {},
    ),
    "over as many as allowed": (
        {3: 1, 4: 1}, [pending(1, 4, nodes=3, max_switches=2)], {1: [1, 2, 5]},
    ),
    "where it fits on one leaf it does": (
        {1: 1}, [pending(1, 4, nodes=3, max_switches=1)], {1: [3, 4, 5]},
    ),
    "whole or not at all": ({3: 1}, [pending(1, 4, nodes=6)], {}),
    "not on names it rules out": (
        {}, [pending(1, 4, nodes=2, not_nodes=("n2",))], {1: [3, 4]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_which_nodes(case: str) -> None:
    used, queue, expected = CASES[case]
    active = [running(50, 60, *used)] if used else []
    decided = plan(Snapshot(tuple(racks(used)), tuple(queue), tuple(active)), NOW)
    assert {
        start.job_id: [part.node_id for part in start.placements] for start in decided.starts
    } == expected


def test_without_any_known_switch_a_gang_goes_where_it_would_by_itself() -> None:
    nodes = (node(1, used={50: 1}), node(2, used={51: 2}), node(3), node(4))
    active = (running(50, 60, 1), running(51, 60, 2))
    for asked in ({}, {"max_switches": 2}, {"max_switches": 3}):
        decided = plan(Snapshot(nodes, (pending(1, 2, nodes=2, **asked),), active), NOW)
        assert [part.node_id for part in decided.starts[0].placements] == [1, 2]


@pytest.mark.parametrize(
    ("switches", "why"),
    [
        (
            {},
            "It asks for 2 nodes on 1 switch; which nodes of partition gpu share a switch is not "
            "known. It cannot start unless such a node is added, or an admin sets the switches of "
            "n1, n2, n3.",
        ),
        (
            {1: ("a",)},
            "It asks for 2 nodes on 1 switch; no switch of partition gpu has more than 1 such "
            "node, and the switches of n2, n3 are not known. It cannot start unless such a node is "
            "added, or an admin sets the switches of n2, n3.",
        ),
        (
            {1: ("a",), 2: ("b",), 3: ("c",)},
            "It asks for 2 nodes on 1 switch; no switch of partition gpu has more than 1 such "
            "node. It cannot start unless such a node is added.",
        ),
    ],
)
def test_a_node_whose_switch_is_not_known_is_on_none_with_others(
    switches: dict[int, tuple[str, ...]], why: str
) -> None:
    nodes = tuple(node(number, switches=switches.get(number, ())) for number in (1, 2, 3))
    decided = plan(Snapshot(nodes, (pending(1, 4, nodes=2, max_switches=1),)), NOW)
    assert not decided.starts
    assert not decided.estimates
    assert decided.explanations[1].reason is Reason.BAD_CONSTRAINTS
    assert decided.explanations[1].detail == why


def test_only_nodes_known_to_be_on_one_switch_are_taken_for_it() -> None:
    nodes = [node(1), node(2), node(3, switches=("a",)), node(4, switches=("a",))]
    asked = (pending(1, 4, nodes=2, max_switches=1),)
    decided = plan(Snapshot(tuple(nodes), asked), NOW)
    assert [part.node_id for part in decided.starts[0].placements] == [3, 4]
    nodes[3] = node(4, switches=("a",), used={50: 1})
    decided = plan(Snapshot(tuple(nodes), asked, (running(50, 60, 4),)), NOW)
    assert decided.explanations[1].detail == (
        "Needs 2 nodes with 4 GPUs each; 3 have that free now (n1, n2, n3), but not on 1 switch as "
        "far as is known. Job 50 makes room for it on n3, n4 by 13:00 UTC at the latest."
    )


def test_enough_nodes_on_too_many_switches_are_told() -> None:
    used = {1: 1, 3: 1, 4: 1, 6: 1}
    asked = Snapshot(
        tuple(racks(used)), (pending(1, 4, nodes=2, max_switches=1),), (running(50, 60, *used),)
    )
    assert plan(asked, NOW).explanations[1].detail == (
        "Needs 2 nodes with 4 GPUs each; 2 have that free now (n2, n5), but not on 1 "
        "switch. Job 50 makes room for it on n1, n2 by 13:00 UTC at the latest."
    )


def test_the_smaller_switch_is_passed_over_where_it_has_too_many_leaves() -> None:
    leaves = {1: "a", 2: "b", 3: "c", 4: "d", 5: "d", 6: "e"}
    nodes = tuple(
        node(number, switches=(leaf, "left" if leaf in "abc" else "right", "top"))
        for number, leaf in leaves.items()
    )
    decided = plan(Snapshot(nodes, (pending(1, 4, nodes=3, max_switches=2),)), NOW)
    assert [part.node_id for part in decided.starts[0].placements] == [4, 5, 6]


def test_more_nodes_than_so_many_switches_have_are_never_there() -> None:
    asked = Snapshot(tuple(racks()), (pending(1, 4, nodes=4, max_switches=1),))
    found = plan(asked, NOW)
    assert found.explanations[1].reason is Reason.BAD_CONSTRAINTS
    assert found.explanations[1].detail == (
        "It asks for 4 nodes on 1 switch; no switch of partition gpu has more than 3 such nodes. "
        "It cannot start unless such a node is added."
    )
    assert not found.estimates


def test_a_switch_that_has_enough_nodes_only_once_one_is_back() -> None:
    nodes = [replace(one, unavailable="down") if one.id == 4 else one for one in racks()]
    found = plan(Snapshot(tuple(nodes), (pending(1, 4, nodes=3, max_switches=1),)), NOW)
    assert found.explanations[1].detail == (
        "Needs 3 nodes on 1 switch; of those that could hold it 5 take jobs now. "
        "Not available: n4 (down). It goes on by itself once enough are back."
    )


def test_a_gang_is_promised_all_its_nodes_at_once() -> None:
    """Nothing that is free now is kept for it longer than needed."""
    nodes = (node(1, used={50: 4}), node(2, used={51: 4}), node(3))
    active: tuple[Running, ...] = (running(50, 60, 1), running(51, 120, 2))
    queue = (
        pending(1, 4, nodes=3),
        pending(2, 4, walltime_s=7200),
        pending(3, 4, walltime_s=7201),
    )
    decided = plan(Snapshot(nodes, queue, active), NOW)
    assert [start.job_id for start in decided.starts] == [2]
    other = plan(Snapshot(nodes, (queue[0], queue[2]), active), NOW)
    assert not other.starts
