"""Changes of one waiting job, all tried in one walk along the queue of the others.

Where the changed job would stand it is asked whether it could start, and takes nothing. It is a
close guess, and no promise: the real plan has to be asked about what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from jobs.scheduler.rank import Place, place
from jobs.scheduler.snapshot import Pending, Snapshot
from jobs.scheduler.walk import Walk


class Tries:
    """What becomes of a job with each of these changes, by the identity of the changed job."""

    def __init__(
        self, snapshot: Snapshot, job: Pending, changed: Iterable[Pending], now: datetime
    ) -> None:
        stands = place(snapshot, now)
        others = sorted(
            ((stands(one), one) for one in snapshot.pending if one.id != job.id), key=_place
        )
        tries = sorted(((stands(one), one) for one in changed), key=_place, reverse=True)
        self._walk = walk = Walk.of(snapshot, now)
        self._starts: set[int] = set()
        walk.begin(other for _, other in others)
        mine = stands(job)
        ahead = set()
        for at, other in others:
            while tries and tries[-1][0] < at:
                self._ask(tries.pop()[1])
            walk.take(other)
            if at < mine:
                ahead.add(other.id)
        for _, one in reversed(tries):
            self._ask(one)
        walk.finish()
        self._ahead = frozenset(ahead)

    def _ask(self, changed: Pending) -> None:
        if self._walk.would_start(changed):
            self._starts.add(id(changed))

    def starts(self, changed: Pending) -> bool:
        """Whether it would start now."""
        return id(changed) in self._starts

    def expected(self, changed: Sequence[Pending]) -> list[datetime | None]:
        """When each is expected to, if nobody behind the job came before; None if not known."""
        known = [one if self._walk.is_startable(one) else None for one in changed]
        asked = [one for one in known if one is not None]
        found = iter(self._walk.foresight(self._ahead).expected_of(asked))
        moments = (None if one is None else next(found) for one in known)
        return [None if at is None else datetime.fromtimestamp(at, UTC) for at in moments]


def _place(entry: tuple[Place, Pending]) -> Place:
    return entry[0]
