"""Nodes near each other: as few leaf switches as will do, under as low a switch as will do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from jobs.scheduler.snapshot import Node


class OnNode(Protocol):
    """What stands for a node."""

    @property
    def node(self) -> Node: ...


At = TypeVar("At", bound=OnNode)
Key = Callable[[Any], Any]


def compact(
    rooms: Sequence[At], number: int, key: Key, max_switches: int | None = None
) -> list[At] | None:
    """`number` of these nodes under the lowest switch that has enough, on its fewest leaves.

    Of equal switches that with the fewest such nodes is used, so that large groups stay whole,
    and on a leaf the first by `key`. A node's `switches` go from its leaf up; nodes of which
    none is known count as neighbours. None if it cannot be, or only with more than
    `max_switches` leaf switches.
    """
    if len(rooms) < number:
        return None
    ordered = sorted(rooms, key=key)
    if number == 1 or not any(room.node.switches for room in rooms):
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


def _groups(rooms: Sequence[At], level: int) -> dict[str, list[At]]:
    groups: dict[str, list[At]] = defaultdict(list)
    for room in rooms:
        switches = room.node.switches
        groups[switches[level] if level < len(switches) else ""].append(room)
    return groups
