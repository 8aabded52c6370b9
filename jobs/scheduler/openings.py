"""When each node opens for a class of requests, so kept that only those are asked that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from jobs.scheduler.levels import Levels
from jobs.scheduler.room import Room
from jobs.spec import Resources

Moments = NDArray[np.float64]
"""Of each node one, in their order."""


class Openings:
    """With whose end each of these nodes fits, if nothing was promised: as `Room.opens` says."""

    def __init__(
        self,
        asked: Resources,
        rooms: Sequence[Room],
        masks: Mapping[int, int],
        levels: Levels[Room],
    ) -> None:
        self._asked = asked
        self._masks = masks
        self._levels = levels
        self._rooms = rooms
        self.places = {room.node.id: place for place, room in enumerate(rooms)}
        """By node id."""
        self._known: Moments | None = None
        self._at = 0
        """Which change they were asked after."""

    def now(self) -> Moments:
        """Of all of them; not to be changed."""
        if self._known is None:
            self._known = np.array([self._opens(room) for room in self._rooms], dtype=np.float64)
        else:
            for room in self._levels.changed_since(self._at):
                place = self.places.get(room.node.id)
                if place is not None:
                    self._known[place] = self._opens(room)
        self._at = self._levels.changes
        return self._known

    def _opens(self, room: Room) -> float:
        booked, room.booked = room.booked, []
        found = room.opens(self._asked, self._masks[room.node.id])
        room.booked = booked
        return found
