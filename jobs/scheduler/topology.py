"""Nodes near each other: as few leaf switches as will do, under as low a switch as will do.

A node's `switches` go from its leaf up. Of one that has none nothing is known of what it shares
with others: it counts as on a leaf of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from jobs.scheduler.snapshot import Node


class OnNode(Protocol):
    """What stands for a node."""

    @property
    def node(self) -> Node: ...


At = TypeVar("At", bound=OnNode)
Key = Callable[[Any], Any]
Switch = str | int
"""A name; of a node of which none is known its id."""


def compact(
    rooms: Sequence[At], number: int, key: Key, max_switches: int | None = None
) -> list[At] | None:
    """`number` of these nodes under the lowest switch that has enough, on its fewest leaves.

    Of equal switches that with the fewest such nodes is used, so that large groups stay whole,
    and on a leaf the first by `key`. None if it cannot be, or only with more than `max_switches`
    leaf switches.
    """
    if len(rooms) < number:
        return None
    known = number > 1 and any(room.node.switches for room in rooms)
    if not known and max_switches is not None and max_switches < number:
        return None
    ordered = sorted(rooms, key=key)
    if not known:
        return ordered[:number]
    for level in range(max(len(room.node.switches) for room in rooms)):
        groups = [g for g in _groups(ordered, level).values() if len(g) >= number]
        # The groups are in the order of their first rooms: equal ones go by `key`.
        for group in sorted(groups, key=len):
            chosen = _on_few_leaves(group, number, max_switches)
            if chosen is not None:
                return chosen
    return _on_few_leaves(ordered, number, max_switches)


def _on_few_leaves(rooms: Sequence[At], number: int, max_switches: int | None) -> list[At] | None:
    """Leaves do not overlap, so the largest first are the fewest."""
    leaves = sorted(_groups(rooms, 0).values(), key=len, reverse=True)
    chosen: list[At] = []
    for used, leaf in enumerate(leaves, 1):
        if max_switches is not None and used > max_switches:
            return None
        missing = number - len(chosen)
        if len(leaf) >= missing:
            # The last one: the smallest that is enough.
            last = min((one for one in leaves[used - 1 :] if len(one) >= missing), key=len)
            return chosen + last[:missing]
        chosen += leaf
    return None


def _groups(rooms: Sequence[At], level: int) -> dict[Switch, list[At]]:
    groups: dict[Switch, list[At]] = defaultdict(list)
    for room in rooms:
        groups[above(room.node, level)].append(room)
    return groups


def above(node: Node, level: int = 0) -> Switch:
    """The switch so many levels above its leaf, or the highest that is known; one of its own where
    none is."""
    switches = node.switches
    if not switches:
        return node.id
    return switches[level] if level < len(switches) else switches[-1]


def contradiction(
    switches: Sequence[str], others: Iterable[tuple[str, Sequence[str]]]
) -> str | None:
    """Why no tree has these switches above a node, and those above others, given by their names;
    None where one has."""
    higher = {name: tuple(switches[at:]) for at, name in enumerate(switches, 1)}
    for other, theirs in others:
        for at in range(len(theirs), 0, -1):
            name, there = theirs[at - 1], tuple(theirs[at:])
            if higher.get(name, there) != there:
                return (
                    f"above {name} would be {', '.join(higher[name]) or 'nothing'}; "
                    f"{other} says {', '.join(theirs)}, with {', '.join(there) or 'nothing'} "
                    f"above {name}"
                )
    return None
