"""What is promised of each node to those who wait, as long as they have not started in a forecast.

A pass lets nobody start who would be in the way of a promise to a job before it. A forecast does
the same at the places that were promised when it began, until who they are for has started.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jobs.scheduler.available import tightest
from jobs.scheduler.lines import Coming, Kind
from jobs.scheduler.place import Place
from jobs.scheduler.pool import Pool
from jobs.scheduler.shape import Promise


class _Kept(NamedTuple):
    """A part of a place."""

    job_id: int
    rank: int
    """Of who it is for."""
    start: float
    gpus: int
    """A bit for each of which something is promised."""
    alone: bool


class Kept:
    """By place."""

    def __init__(self, pools: Iterable[Pool], places: Mapping[int, Place]) -> None:
        self._places = places
        self._promises: dict[int, Promise] = {}
        for pool in pools:
            self._promises |= pool.promises
        self._at: dict[Place, list[_Kept]] = defaultdict(list)

    def comes(self, job: Coming) -> None:
        """Somebody waits: keep what it is promised."""
        promise = self._promises.get(job.id)
        if promise is None or not job.takes:
            return
        for room, part in promise.site:
            kept = _Kept(job.id, job.rank, promise.at, part.touches(), part.alone)
            self._at[self._places[room.node.id]].append(kept)

    def leaves(self, job_id: int) -> bool:
        """It has started, or something else than room holds it up; whether that frees any."""
        promise = self._promises.pop(job_id, None)
        for room, _ in promise.site if promise else ():
            place = self._places[room.node.id]
            self._at[place] = [kept for kept in self._at[place] if kept.job_id != job_id]
            if not self._at[place]:
                del self._at[place]
        return promise is not None

    def clear(
        self, kind: Kind, rank: int, places: list[Place], now: float, until: float
    ) -> list[Place]:
        """Those of these, where its part fits, where it may be until then."""
        if not self._at:
            return places
        return [
            one
            for one in places
            if one not in self._at or self._is_clear(kind, rank, one, now, until)
        ]

    def _is_clear(self, kind: Kind, rank: int, place: Place, now: float, until: float) -> bool:
        promised = 0
        for _, before, start, gpus, alone in self._at[place]:
            if before < rank and now <= start < until:
                if alone or kind.asked.exclusive:
                    return False
                promised |= gpus
        if not promised:
            return True
        mask = kind.masks[place.node_id] & ~promised
        if (place.free & mask).bit_count() < kind.asked.gpus_per_node:
            return False
        shards = kind.asked.shards
        return (
            not shards or tightest(place.gpus, shards, mask, place.free, place.shared) is not None
        )
