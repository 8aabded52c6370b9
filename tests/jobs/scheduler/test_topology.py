"""Nodes near each other, also where of some it is not known how near."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from random import Random

import pytest
from hypothesis import given

from jobs.scheduler.fit import is_near, refuse
from jobs.scheduler.snapshot import Node
from jobs.scheduler.topology import compact, contradiction
from jobs.spec import Resources
from tests.jobs.scheduler.clusters import node
from tests.jobs.scheduler.generated import SWITCHES, seeds


@dataclass(frozen=True)
class At:
    """What stands for a node."""

    node: Node


def by_id(one: At) -> int:
    return one.node.id


def rooms(*switches: tuple[str, ...]) -> list[At]:
    return [At(node(number, switches=above)) for number, above in enumerate(switches, 1)]


def chosen(found: list[At], number: int, most: int | None = None) -> list[int] | None:
    taken = compact(found, number, by_id, most)
    return None if taken is None else sorted(one.node.id for one in taken)


@pytest.mark.parametrize(
    ("switches", "number", "most", "expected"),
    [
        ([(), (), ()], 2, None, [1, 2]),
        ([(), (), ()], 2, 1, None),
        ([(), (), ()], 2, 2, [1, 2]),
        ([(), (), ()], 1, 1, [1]),
        ([(), (), ("a",), ("a",)], 2, None, [3, 4]),
        ([(), (), ("a",), ("a",)], 3, 1, None),
        ([(), (), ("a",), ("a",)], 3, 2, [1, 3, 4]),
        ([(), (), ("a",), ("a",)], 4, 2, None),
        # What hangs on the spine itself is near what hangs on a leaf below it.
        ([("b", "other"), ("a", "spine"), ("spine",)], 2, None, [2, 3]),
        # Above the one leaf nothing is known, so it is near no other.
        ([("a",), ("b", "spine"), ("c", "spine")], 2, None, [2, 3]),
    ],
)
def test_which_are_taken(
    switches: list[tuple[str, ...]], number: int, most: int | None, expected: list[int] | None
) -> None:
    assert chosen(rooms(*switches), number, most) == expected


@given(seeds)
def test_found_wherever_there_are_enough_on_so_few_known_leaves(seed: int) -> None:
    dice = Random(seed)
    there = rooms(*(dice.choice(SWITCHES) for _ in range(dice.randint(1, 7))))
    number, most = dice.randint(1, 5), dice.choice([None, 1, 2, 3])
    found = compact(there, number, by_id, most)
    leaves = {one.node.id: one.node.switches[:1] or one.node.id for one in there}

    def near(some: tuple[At, ...] | list[At]) -> bool:
        return most is None or len({leaves[one.node.id] for one in some}) <= most

    assert (found is not None) == any(map(near, combinations(there, number)))
    if found is not None:
        assert len(set(found)) == number
        assert near(found)
    nodes = [one.node for one in there]
    asked = Resources(nodes=number, max_switches=most)
    assert (refuse(asked, nodes) is None) == (found is not None)
    assert (len(nodes) >= number and is_near(asked, nodes)) == (found is not None)


OTHERS = [("n1", ("leaf1", "spine1", "core")), ("n2", ("leaf2", "spine1", "core")), ("n3", ())]


@pytest.mark.parametrize(
    ("switches", "why"),
    [
        ((), None),
        (("leaf1", "spine1", "core"), None),
        (("leaf3", "spine1", "core"), None),
        (("spine1", "core"), None),
        (("leaf3", "spine2", "core"), None),
        (("leaf3", "spine2"), None),
        (
            ("leaf3", "spine1"),
            "above spine1 would be nothing; n1 says leaf1, spine1, core, with core above spine1",
        ),
        (
            ("leaf2", "spine2", "core"),
            "above leaf2 would be spine2, core; n2 says leaf2, spine1, core, "
            "with spine1, core above leaf2",
        ),
        (
            ("leaf1", "spine1", "core", "roof"),
            "above core would be roof; n1 says leaf1, spine1, core, with nothing above core",
        ),
        (
            ("core", "spine1"),
            "above core would be spine1; n1 says leaf1, spine1, core, with nothing above core",
        ),
    ],
)
def test_a_switch_has_the_same_above_it_everywhere(
    switches: tuple[str, ...], why: str | None
) -> None:
    assert contradiction(switches, OTHERS) == why
