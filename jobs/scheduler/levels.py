"""The nodes of a partition by how many of their GPUs are free, so that few have to be asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key")


class Levels(Generic[Key]):
    """Each node is on the level of its free GPUs: those of which nobody has anything."""

    __slots__ = ("_at", "_changed", "changes")

    def __init__(self, free: Iterable[tuple[Key, int]]) -> None:
        self._at: list[dict[Key, None]] = []
        self._changed: dict[Key, int] = {}
        """With which change each changed last; the latest comes last."""
        self.changes = 0
        """How often any of them has changed."""
        for node, level in free:
            self._level(level)[node] = None

    def move(self, node: Key, before: int, free: int) -> None:
        """It had so many free, and has others now, or other parts of them."""
        if before != free:
            del self._at[before][node]
            self._level(free)[node] = None

    def touch(self, node: Key) -> None:
        """What was found out about it before holds no more."""
        self.changes += 1
        self._changed.pop(node, None)
        self._changed[node] = self.changes

    def changed_since(self, change: int) -> Iterator[Key]:
        """Those that have changed after so many changes."""
        for node, last in reversed(self._changed.items()):
            if last <= change:
                return
            yield node

    def upwards(self, free: int) -> Iterator[Iterable[Key]]:
        """Those with so many free, those with one more, and so on."""
        return iter(self._at[free:])

    def number(self, free: int) -> int:
        """How many have so many free, or more."""
        return sum(map(len, self._at[free:]))

    def _level(self, free: int) -> dict[Key, None]:
        while len(self._at) <= free:
            self._at.append({})
        return self._at[free]
