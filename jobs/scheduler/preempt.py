"""Who has to make room for whom.

Only a job of a higher band, as far as the policy lets that band preempt, or one whose project
asks back what others borrowed: from the project that is most beyond its guarantee, and of its jobs
those that are borrowed. Of those who may be asked, they go first who lose least work since their
last checkpoint, then the youngest; in the end those are let off whose leaving was not needed.
Nobody is asked who has just begun, or who has been asked too often in a row.

No chain of preemptions goes on for ever: a victim is of a lower band, or runs beyond its
project's guarantee and, waiting again, may preempt nobody on the strength of it. Nor does a higher
band help who would borrow against a project that is within its guarantee.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobs.bands import Band
from jobs.scheduler.admit import gpus_of
from jobs.scheduler.holds import Hold
from jobs.scheduler.lending import borrowed
from jobs.scheduler.policy import Policy
from jobs.scheduler.pool import Pool
from jobs.scheduler.room import Room
from jobs.scheduler.shape import Shape
from jobs.scheduler.snapshot import Pending
from jobs.scheduler.tally import BORROWS, FITS, Tally

LONG_RUN_S = 86_400.0
"""Who ran for so long has come on, however often it had to make room before."""


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
    """It has been told to stop, and is about to be gone."""
    preemptible: bool = True
    """It can be told to stop."""

    def lost(self, now: float) -> float:
        """GPU-seconds of work that would have to be done again; without GPUs as if on one."""
        return max(0.0, now - self.saved_at) * (self.gpus or 1.0)


Holds = list[tuple[Room, Hold]]
"""What a job has of each of its nodes."""


def may_be_asked(policy: Policy, ran_s: float, preempted: int) -> bool:
    """Not who has just begun, and not who had to make room too often in a row."""
    return ran_s >= policy.min_run_s and preempted < policy.max_preemptions


def in_a_row(before: int, ran_s: float) -> int:
    """How many preemptions in a row still count after a run of this length."""
    return 0 if ran_s >= LONG_RUN_S else before


def asked_after(policy: Policy, before: int) -> float:
    """How long a run has to be until it may be asked, in seconds; infinity: it never may."""
    if not policy.max_preemptions:
        return math.inf
    return max(policy.min_run_s, LONG_RUN_S if before >= policy.max_preemptions else 0.0)


class Preemption:
    """Finds victims among those who ran when the pass began."""

    def __init__(self, victims: Iterable[Victim], tally: Tally, policy: Policy, now: float) -> None:
        self._tally = tally
        self._policy = policy
        self._now = now
        every = sorted(
            victims, key=lambda victim: (victim.lost(now), -victim.started_at, -victim.job_id)
        )
        self._victims = [victim for victim in every if self._may_be_asked(victim)]
        self._leaving = [victim for victim in every if victim.leaving]
        self._groups = {one.group: one.band for one in (*self._victims, *self._leaving)}
        self._gone = {victim.group for victim in self._leaving}
        """The groups of those who leave."""
        self._counted: dict[int, list[int]] = {}
        self._rooms: dict[int, dict[int, list[Room]]] = {}
        """By pool, where each job is that ran when the pass began."""
        self._claims: list[tuple[int, float, float]] = []
        """Group, GPUs and GPU-seconds of those for whom the leaving make room."""
        self.tried = 0
        """How often it was looked whether somebody fits without some of them."""
        self._hopeless: dict[tuple[int, int], float] = {}
        """By class and group: the shortest time for which nobody's leaving would do."""

    @property
    def leaving(self) -> Iterable[tuple[int, float]]:
        """Group and GPUs of those who have been told to go."""
        return ((victim.group, victim.gpus) for victim in self._leaving)

    def may_help(self, job: Pending, group: int, shape: Shape, limit: int) -> bool:
        """Whether it is worth while to look for victims. `limit`: what `Tally.check` said."""
        if self._now + self._policy.room_after_s > job.starts_by:
            # Its deadline would be missed before they are gone.
            return False
        if job.walltime_s >= self._hopeless.get((id(shape), group), math.inf):
            return False
        if limit in (FITS, BORROWS):
            return bool(self._victims or self._leaving)
        preempts = self._policy.preempts.get(job.band, frozenset())
        return any(
            other in self._gone
            or self._groups[other] in preempts
            or self._tally.owes(other, group, shape.gpus)
            for other in self._counted_in(limit)
        )

    def _counted_in(self, limit: int) -> list[int]:
        """The groups of victims, and of those who leave, that count against it."""
        if limit not in self._counted:
            self._counted[limit] = [
                group for group in self._groups if limit in self._tally.limits(group)
            ]
        return self._counted[limit]

    def make_room(
        self, job: Pending, group: int, pool: Pool, shape: Shape, length: float
    ) -> list[Victim] | None:
        """Those who have to leave so that the job fits for so long, beside those who do anyway.

        None if that would not do. Until `policy.grace_s` from now they are still there: the caller
        promises the job its place from then on.
        """
        there = self._whereabouts(pool)
        lasts = self._policy.room_after_s + length
        trial = _Trial(job, group, pool, shape, lasts, self._now, self._tally)
        for victim in self._leaving:
            trial.remove(victim, there.get(victim.job_id, []))
        for claim in self._claims:
            self._tally.add(*claim)
        chosen = self._choose(trial, job, group, there)
        for claim in self._claims:
            self._tally.remove(*claim)
        trial.undo()
        self.tried += trial.tried
        if chosen is None:
            self._hopeless[id(shape), group] = length
            return None
        self._claims.append((group, trial.gpus, trial.gpus * length))
        for victim in chosen:
            self._victims.remove(victim)
            self._leaving.append(victim)
            self._gone.add(victim.group)
            for room in there.get(victim.job_id, ()):
                end = min(room.holds[victim.job_id].end, self._now + self._policy.grace_s)
                room.expect(victim.job_id, end)
        return chosen

    def _choose(
        self, trial: _Trial, job: Pending, group: int, there: dict[int, list[Room]]
    ) -> list[Victim] | None:
        if trial.fits():
            return []
        taken = []
        gpus = trial.gpus
        limited = trial.limited(gpus)
        for victim in self._asked(job, group, gpus, limited):
            # What was borrowed may be given back on nodes of another partition, too.
            reached = limited or victim.job_id in there
            if reached and self._may_be_taken(victim, job, group, gpus):
                trial.remove(victim, there.get(victim.job_id, []))
                taken.append(victim)
                if trial.fits():
                    return trial.let_off(taken)
        return None

    def _whereabouts(self, pool: Pool) -> dict[int, list[Room]]:
        """They stay where they are for all of a pass; who starts in it is no victim."""
        found = self._rooms.get(id(pool))
        if found is None:
            found = self._rooms[id(pool)] = defaultdict(list)
            for room in pool.rooms:
                for job_id in room.holds:
                    found[job_id].append(room)
        return found

    def _asked(self, job: Pending, group: int, gpus: float, limited: bool) -> Iterable[Victim]:
        """Who may be, in their order. Where a quota is in the way, what is lent goes first."""
        preempts = self._policy.preempts.get(job.band, frozenset())
        by_band = [victim for victim in self._victims if victim.band in preempts]
        lent = self._lent(group, gpus)
        return dict.fromkeys([*lent, *by_band] if limited else [*by_band, *lent])

    def _lent(self, group: int, gpus: float) -> list[Victim]:
        """What others have borrowed of that to which the group has a right."""
        found: list[Victim] = []
        for borrower in self._tally.borrowers(group, gpus):
            theirs = [
                v for v in self._victims if self._tally.is_below(v.group, borrower.project_id)
            ]
            back = set(borrowed(theirs, borrower.over))
            found += [victim for victim in theirs if victim in back]
        return found

    def _may_be_asked(self, victim: Victim) -> bool:
        ran = self._now - victim.started_at
        there = victim.preemptible and not victim.leaving
        return there and may_be_asked(self._policy, ran, victim.preempted)

    def _may_be_taken(self, victim: Victim, job: Pending, group: int, gpus: float) -> bool:
        if victim.band in self._policy.preempts.get(job.band, frozenset()):
            # Who borrows does not do so from who would at once ask it back.
            return not (gpus and self._tally.trespasses(group, victim.group, gpus))
        return victim.group != group and self._tally.owes(victim.group, group, gpus)


class _Trial:
    """Victims taken away to see whether the job fits then. `undo` it in the end."""

    def __init__(
        self, job: Pending, group: int, pool: Pool, shape: Shape, length: float, now: float,
        tally: Tally,
    ) -> None:  # fmt: skip
        self._job, self._group, self._length, self._now = job, group, length, now
        self._pool, self._shape, self._tally = pool, shape, tally
        self.gpus = shape.gpus
        """As how many it counts: at least, and where it last was found to fit."""
        self._removed: dict[int, tuple[Victim, Holds]] = {}
        self._was = shape.fails_from
        self.tried = 0
        self._promises = tuple(pool.promises.values())
        self._rooms: dict[int, tuple[Room, int, int]] = {}
        """With their CPUs and memory: an emptied node has all of it, told or not."""

    def remove(self, victim: Victim, rooms: list[Room]) -> None:
        holds = [(room, room.holds[victim.job_id]) for room in rooms]
        for room in rooms:
            self._rooms.setdefault(room.node.id, (room, room.cpus, room.memory_mib))
            room.release(victim.job_id)
        self._tally.remove(victim.group, victim.gpus, 0.0)
        self._removed[victim.job_id] = victim, holds

    def put_back(self, victim: Victim, holds: Holds) -> None:
        for room, held in holds:
            room.take(victim.job_id, held.part, held.end)
        self._tally.add(victim.group, victim.gpus, 0.0)
        del self._removed[victim.job_id]

    def limited(self, gpus: float) -> bool:
        """Whether a quota is in its way with so many, whatever there is room for."""
        limit = self._tally.check(self._group, gpus, gpus * self._job.walltime_s)
        return limit not in (FITS, BORROWS)

    def fits(self) -> bool:
        """Whether it could start once they are gone, and break no promise."""
        if self.limited(self._shape.gpus) or not self._pool.has_room(self._shape.asked):
            return False
        self._shape.fails_from = math.inf
        self.tried += 1
        # A promise that was moved to where somebody is away for the trial alone has no place there.
        site = self._pool.find(self._shape, self._length, self._now, moving=False)
        if site is None:
            return False
        self.gpus = gpus_of(self._shape, site)
        return not self._shape.varies or not self.limited(self.gpus)

    def let_off(self, taken: Sequence[Victim]) -> list[Victim]:
        """Those who are needed: who loses most is let off first."""
        for victim in reversed(taken):
            holds = self._removed[victim.job_id][1]
            self.put_back(victim, holds)
            if not self.fits():
                self.remove(victim, [room for room, _ in holds])
        return [victim for victim in taken if victim.job_id in self._removed]

    def undo(self) -> None:
        """All are back, and the promises that were moved out of the way are where they were."""
        for victim, holds in list(self._removed.values()):
            self.put_back(victim, holds)
        for room, cpus, memory_mib in self._rooms.values():
            room.restore(cpus, memory_mib)
        self._pool.restore(self._promises)
        self._shape.fails_from = self._was
