"""Who has to make room for whom.

Only a job of a higher band, as far as the policy lets that band preempt, or one whose project
asks back what others borrowed. Of those who may be asked, they go first who lose least work since
their last checkpoint, then the youngest; in the end those are let off whose leaving was not
needed. Nobody is asked who has just begun, or who has been asked too often in a row.

No chain of preemptions goes on for ever: a victim is of a lower band, or runs beyond its
project's guarantee and, waiting again, may preempt nobody on the strength of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from jobs.bands import Band
from jobs.scheduler.holds import Hold
from jobs.scheduler.policy import Policy
from jobs.scheduler.pool import Pool, Shape
from jobs.scheduler.room import Room
from jobs.scheduler.snapshot import Pending
from jobs.scheduler.tally import BORROWS, FITS, Tally


@dataclass(frozen=True, slots=True)
class Victim:
    """A running job, as far as it may have to make room."""

    job_id: int
    band: Band
    group: int
    """That of the tally: its project, user and band."""
    gpus: float
    started_at: float
    saved_at: float
    """When its last checkpoint was written; its start if there is none."""
    preempted: int = 0
    """How often in a row it had to make room before this run."""
    leaving: bool = False
    """It has been told to stop."""

    def lost(self, now: float) -> float:
        """GPU-seconds of work that would have to be done again."""
        return max(0.0, now - self.saved_at) * max(1.0, self.gpus)


Holds = list[tuple[Room, Hold]]


class Preemption:
    """Finds victims among those who ran when the pass began."""

    def __init__(self, victims: Iterable[Victim], tally: Tally, policy: Policy, now: float) -> None:
        self._tally = tally
        self._policy = policy
        self._now = now
        self._victims = sorted(
            (victim for victim in victims if self._may_be_asked(victim)),
            key=lambda victim: (victim.lost(now), -victim.started_at, -victim.job_id),
        )
        self._hopeless: set[tuple[int, int]] = set()

    def make_room(
        self, job: Pending, group: int, pool: Pool, shape: Shape, length: float
    ) -> list[Victim]:
        """Those who have to leave so that the job fits for so long; none if that would not do.

        Until `policy.grace_s` from now they are still there: the caller promises the job its
        place from then on.
        """
        if not self._victims or (id(shape), group) in self._hopeless:
            return []
        there = _whereabouts(pool)
        trial = _Trial(job, group, pool, shape, length, self._now, self._tally)
        for victim in self._victims:
            if victim.job_id in there and self._may_be_taken(victim, job, group):
                trial.remove(victim, there[victim.job_id])
                if trial.fits():
                    break
        chosen = trial.let_off() if trial.fits() else []
        trial.undo()
        if not chosen:
            self._hopeless.add((id(shape), group))
        for victim in chosen:
            self._victims.remove(victim)
            for room, held in there[victim.job_id]:
                end = min(held.end, self._now + self._policy.grace_s)
                room.expect(victim.job_id, end)
        return chosen

    def _may_be_asked(self, victim: Victim) -> bool:
        policy = self._policy
        return (
            not victim.leaving
            and self._now - victim.started_at >= policy.min_run_s
            and victim.preempted < policy.max_preemptions
        )

    def _may_be_taken(self, victim: Victim, job: Pending, group: int) -> bool:
        if victim.band in self._policy.preempts.get(job.band, frozenset()):
            return True
        return victim.group != group and self._tally.owes(victim.group, group, job.gpus)


class _Trial:
    """Victims taken away to see whether the job fits then. `undo` it in the end."""

    def __init__(
        self, job: Pending, group: int, pool: Pool, shape: Shape, length: float, now: float,
        tally: Tally,
    ) -> None:  # fmt: skip
        self._job, self._group, self._length, self._now = job, group, length, now
        self._pool, self._shape, self._tally = pool, shape, tally
        self._removed: dict[int, tuple[Victim, Holds]] = {}
        self._was = shape.fails_from

    def remove(self, victim: Victim, holds: Holds) -> None:
        for room, _ in holds:
            room.release(victim.job_id)
        self._tally.remove(victim.group, victim.gpus, 0.0)
        self._removed[victim.job_id] = victim, holds

    def put_back(self, victim: Victim, holds: Holds) -> None:
        for room, held in holds:
            room.take(victim.job_id, held.part, held.end)
        self._tally.add(victim.group, victim.gpus, 0.0)
        del self._removed[victim.job_id]

    def fits(self) -> bool:
        """Whether it could start, were they gone, and break no promise."""
        job = self._job
        limit = self._tally.check(self._group, job.gpus, job.gpus * job.walltime_s)
        if limit not in (FITS, BORROWS):
            return False
        self._shape.fails_from = math.inf
        return self._pool.find(self._shape, self._length, self._now) is not None

    def let_off(self) -> list[Victim]:
        """Those who are needed: who loses most is let off first."""
        for victim, holds in reversed(list(self._removed.values())):
            self.put_back(victim, holds)
            if not self.fits():
                self.remove(victim, holds)
        return [victim for victim, _ in self._removed.values()]

    def undo(self) -> None:
        for victim, holds in list(self._removed.values()):
            self.put_back(victim, holds)
        self._shape.fails_from = self._was


def _whereabouts(pool: Pool) -> dict[int, Holds]:
    found: dict[int, Holds] = defaultdict(list)
    for room in pool.rooms:
        for held in room.holds.values():
            found[held.job_id].append((room, held))
    return found
