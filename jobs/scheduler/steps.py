"""Which of many needs so much of one thing meets. Sets are the bits of an integer."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable


class Steps:
    """Who needs little is served by much, too: to ask is one search, however many there are."""

    __slots__ = ("_needs", "_served")

    def __init__(self, needs: Iterable[tuple[float, int]]) -> None:
        """Of each how much it needs, and its bit."""
        by_need: dict[float, int] = defaultdict(int)
        for need, bit in needs:
            by_need[need] |= bit
        self._needs = sorted(by_need)
        self._served = [0]
        for need in self._needs:
            self._served.append(self._served[-1] | by_need[need])

    def served(self, there: float) -> int:
        """Those who need no more than that."""
        return self._served[bisect_right(self._needs, there)]
