"""The first moment at which a job surely fits, beside what is promised to others.

Of a node of which nothing is promised it is known when it opens. The others open then at the
soonest, and each of them is asked for how long it does only when that could be soon enough.
"""

from __future__ import annotations

import numpy as np

from jobs.scheduler.holds import NOW
from jobs.scheduler.openings import Moments
from jobs.scheduler.shape import Shape


class Search:
    """For one job of this shape, for `length` seconds."""

    def __init__(self, shape: Shape, length: float, now: float) -> None:
        self._shape = shape
        self._length = length
        self._now = now
        known = shape.openings.now()
        self.opens: Moments = np.where(known == NOW, now, np.maximum(known, now + 1))
        """Of each ready node, when it opens. Exact up to the moment that was found last."""
        self._particular = np.array(sorted(shape.particular()), dtype=np.intp)
        self._unsure = self._particular

    def first(self) -> float:
        """By when as many nodes have opened as it needs; infinity if that is not known."""
        return self._next(None)

    def after(self, at: float) -> float:
        """The same, later than a moment at which it turned out not to fit, as some of them were
        closed again."""
        for place in self._particular:
            if self.opens[place] <= at and not self._fits_at(place, at):
                self.opens[place] = self._opens_after(place, at)
        return self._next(at)

    def _next(self, after: float | None) -> float:
        while True:
            at = self._shape.enough(self.opens, after)
            soon = self.opens[self._unsure] <= at
            if not soon.any():
                return at
            for place in self._unsure[soon]:
                self.opens[place] = self._opens_after(place, NOW)
            self._unsure = self._unsure[~soon]

    def _fits_at(self, place: int, at: float) -> bool:
        return self._shape.fits_at(self._shape.ready[place], at, at + self._length)

    def _opens_after(self, place: int, at: float) -> float:
        return self._shape.opens_after(place, at, self._length, self._now)
