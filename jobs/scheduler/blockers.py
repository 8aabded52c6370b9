"""Why a job waits for others: all that is in its way now, in plain sentences with true numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from jobs.lifecycle import Reason
from jobs.scheduler.admit import admit
from jobs.scheduler.alternatives import LEAST_S
from jobs.scheduler.claims import Barred
from jobs.scheduler.closures import Closure
from jobs.scheduler.counters import Counters
from jobs.scheduler.demand import largest
from jobs.scheduler.explain import unavailable
from jobs.scheduler.limits import Excess, Limited, Rule, Scope
from jobs.scheduler.pool import Pool
from jobs.scheduler.quota_words import spoken_for
from jobs.scheduler.shape import Promise, Shape
from jobs.scheduler.shortage import need, shortage
from jobs.scheduler.site import choose
from jobs.scheduler.snapshot import Explanation, Pending, Preempted, Running
from jobs.scheduler.waits import Others
from jobs.scheduler.words import capital, clock, count, jobs_named, latest, listed, span

QUOTA_REASONS = {
    (Limited.GPUS, Scope.PROJECT): Reason.QUOTA_GPUS,
    (Limited.GPUS, Scope.USER): Reason.QUOTA_USER_GPUS,
    (Limited.GPU_HOURS, Scope.PROJECT): Reason.QUOTA_GPU_HOURS,
    (Limited.GPU_HOURS, Scope.USER): Reason.QUOTA_GPU_HOURS,
    (Limited.JOBS_RUNNING, Scope.PROJECT): Reason.QUOTA_JOBS,
    (Limited.JOBS_RUNNING, Scope.USER): Reason.QUOTA_USER_JOBS,
}


@dataclass(frozen=True)
class Told:
    """Who has been told to stop, now or in an earlier pass."""

    leaving: frozenset[int]
    """All of them."""
    victims: Mapping[int, Sequence[int]]
    """By job id, those who are told in this pass to make room for it."""

    @classmethod
    def of(cls, running: Iterable[Running], preempted: Iterable[Preempted]) -> Told:
        victims: dict[int, list[int]] = defaultdict(list)
        for one in preempted:
            victims[one.for_id].append(one.job_id)
        before = frozenset(job.id for job in running if job.leaving)
        return cls(before.union(*victims.values()), victims)

    def to_make_room_for(self, job: Pending) -> Iterable[int]:
        """Who makes room for whom is not known of earlier passes, only that somebody does."""
        return self.victims.get(job.id) or (self.leaving if job.claimed_at else ())


class Blockers:
    """Tells after a pass what is in the way. Equal requests are told the same."""

    def __init__(
        self,
        pools: Mapping[str, Pool],
        counters: Counters,
        others: Others,
        told: Told,
        now: datetime,
        barred: Mapping[int, Barred],
    ) -> None:
        """`barred`: by job id, who has to leave their quota to others before them."""
        self._pools = pools
        self._counters = counters
        self._others = others
        self._told = told
        self._now = now
        self._barred = barred
        self._room: dict[int, str | None] = {}
        self._unpromised: dict[int, str] = {}
        """What is told of what they lack to those of a class who are far behind."""

    def explain(self, job: Pending, ahead: int, aside: Iterable[Pending] = ()) -> Explanation:
        """`ahead`: how many wait in its partition before it; `aside`: those of them that let it
        pass as long as something of their own, or a quota, keeps them back."""
        pool = self._pools[job.partition]
        _, shape = admit(job, pool, self._counters)
        limits = self._limits(job, shape.gpus)
        missing = self._missing(shape)
        closure = None if missing else self._closure(job, pool, shape)
        reason, room = Reason.RESOURCES, ""
        if missing is not None:
            room = missing + self._lacking(job, pool, shape, aside)
        elif closure is not None:
            reason = Reason.RESERVATION
            room = self._reserved(job, shape, closure) + self._outlook(job, pool, aside, closure)
        elif not limits and job.id not in self._barred:
            reason, room = Reason.PRIORITY, self._kept(job, pool, shape, ahead)
        if limits:
            sentences = [excess.sentence for excess in limits] + self._making_room(job)
            more = (*sentences[1:], room) if room else tuple(sentences[1:])
            return Explanation(_reason(limits[0].rule), sentences[0], more, ahead)
        if job.id in self._barred:
            barred = self._barred[job.id]
            return Explanation(
                _reason(barred.rule), self._spoken_for(barred), (room,) if room else (), ahead
            )
        return Explanation(reason, room, self._too_large(job, pool, shape), ahead)

    def _spoken_for(self, barred: Barred) -> str:
        names = jobs_named(self._others.holding(barred.by))
        return spoken_for(barred.rule, names, len(barred.by) > 1)

    def _limits(self, job: Pending, gpus: float) -> tuple[Excess, ...]:
        group = self._counters.group(job.project_id, job.user_id, job.band)
        return self._counters.why(group, gpus, gpus * job.walltime_s)

    def _too_large(self, job: Pending, pool: Pool, shape: Shape) -> tuple[str, ...]:
        """What keeps it from nodes on which it would count as more GPUs."""
        asked = job.resources
        if not (asked.exclusive or asked.shards) or shape is (every := pool.shape_of(job)):
            return ()
        most = largest(every.counts.values(), every.asked.nodes, math.inf)
        limits = self._limits(job, most)
        lead = "On other nodes it would count as more GPUs."
        return tuple(f"{lead} {excess.sentence}" for excess in limits[:1])

    def _missing(self, shape: Shape) -> str | None:
        """What a request lacks on the nodes; None if there would be room."""
        if id(shape) not in self._room:
            asked, masks = shape.asked, shape.masks
            fitting = [room for room in shape.ready if room.fits(asked, masks[room.node.id])]
            fits = choose(asked, fitting) is not None
            only = f" (of {listed(sorted(shape.models))}, by quota)" if shape.models else ""
            text = None if fits else f"Needs {need(asked)}{only}; {shortage(shape)}."
            self._room[id(shape)] = text
        return self._room[id(shape)]

    def _lacking(self, job: Pending, pool: Pool, shape: Shape, aside: Iterable[Pending]) -> str:
        """What becomes of that: the same for all who are promised nothing."""
        if job.id in pool.promises:
            return self._outlook(job, pool, aside) + self._away(shape)
        if id(shape) not in self._unpromised:
            self._unpromised[id(shape)] = self._outlook(job, pool, ()) + self._away(shape)
        return self._unpromised[id(shape)]

    def _making_room(self, job: Pending) -> list[str]:
        """Who has been told to stop for who waits for a quota."""
        ids = self._told.to_make_room_for(job)
        return [f"{self._stopping(ids)} to make room."] if ids else []

    def _stopping(self, ids: Iterable[int]) -> str:
        names = self._others.holding(ids)
        have = "has" if len(names) == 1 else "have"
        return f"{capital(jobs_named(names))} {have} been told to stop"

    def _closure(self, job: Pending, pool: Pool, shape: Shape) -> Closure | None:
        """The admin's reservation that it would run into, if that is what keeps it."""
        if not shape.closed:
            return None
        until = self._now.timestamp() + job.walltime_s
        if choose(shape.asked, shape.fitting(until)) is not None:
            return None
        able = {room.node.id for room in shape.ready}
        return min(
            (
                closure
                for closure in pool.closures
                if closure.id not in job.reservations
                and closure.limits_by < until
                and closure.node_ids & able
            ),
            key=lambda closure: (closure.start, closure.id),
        )

    def _reserved(self, job: Pending, shape: Shape, closure: Closure) -> str:
        """That, and whether a shorter time limit would do."""
        text = self._is_reserved(shape, closure)
        now = self._now.timestamp()
        lasts = closure.limits_by - now
        if lasts >= LEAST_S and choose(shape.asked, shape.fitting(now + lasts)) is not None:
            text += f"; with a time limit of {span(lasts)} it could run before"
        return f"{text}."

    def _is_reserved(self, shape: Shape, closure: Closure) -> str:
        """`n1 is reserved for maintenance from 13:00 UTC to 15:00 UTC`."""
        names = [room.node.name for room in shape.ready if room.node.id in closure.node_ids]
        start, end = (datetime.fromtimestamp(at, UTC) for at in (closure.start, closure.end))
        when = f"until {latest(end, self._now)}"
        if start > self._now:
            when = f"from {clock(start, self._now)} to {latest(end, self._now)}"
        are = "is" if len(names) == 1 else "are"
        return f"{listed(names, 3)} {are} reserved for {closure.name} {when}"

    def _away(self, shape: Shape) -> str:
        away = [room.node for room in shape.able if room.node.unavailable]
        return f" Could hold it too, but takes no jobs now: {unavailable(away)}." if away else ""

    def _unknown(self, shape: Shape) -> str:
        """That, if too few nodes are left without those of which nobody knows when they are."""
        held = {h.job_id for r in shape.ready for h in r.holds.values() if h.end == math.inf}
        if not held:
            return ""
        opens = shape.openings.now()
        known = [room for room, at in zip(shape.ready, opens, strict=True) if at < math.inf]
        if choose(shape.asked, known) is not None:
            return ""
        overdue = self._others.holding(held & self._others.ends.keys())
        if not overdue:
            return " When that will be free is not known."
        who = capital(jobs_named(overdue))
        return f" {who} should have ended by now: when that will be free is not known."

    def _outlook(
        self, job: Pending, pool: Pool, aside: Iterable[Pending], told: Closure | None = None
    ) -> str:
        """Who makes room for it, and by when; nothing for those far behind.

        `told`: the reservation that has been told of already.
        """
        shape, promise = pool.shape_of(job), pool.promises.get(job.id)
        if promise is None:
            return self._unknown(shape)
        leaving = {
            held.job_id: held.end
            for room, part in promise.site
            for held in room.holds.values()
            if held.end <= promise.at
        }
        where = listed((room.node.name for room, _ in promise.site), 3)
        moment = datetime.fromtimestamp(promise.at, UTC)
        when = f"{latest(moment, self._now)} {_unless(aside, moment, self._others)}"
        last = max(leaving.values(), default=-math.inf)
        first = {
            h.job_id for room, _ in promise.site for h in room.booked if last < h.end <= promise.at
        }
        if first:
            goes = "go" if len(first) > 1 else "goes"
            who = jobs_named(self._others.holding(first))
            return f" {capital(who)} {goes} first; there is room for it on {where} by {when}."
        closure = _opening(job, pool, promise, last)
        if closure is not None:
            text = "" if closure is told else f" {self._is_reserved(shape, closure)}."
            return f"{text} It has its place on {where} by {when}."
        if not leaving:
            return f" It has its place on {where} by {when}."
        return f" {self._leave(leaving, where, when)}."

    def _leave(self, leaving: Mapping[int, float], where: str, when: str) -> str:
        """Those whose end makes room."""
        who = capital(jobs_named(self._others.holding(leaving)))
        several = len(leaving) > 1
        make = "make" if several else "makes"
        if leaving.keys() <= self._told.leaving:
            return f"{self._stopping(leaving)} and {make} room for it on {where} by {when}"
        if max(leaving.values()) <= self._now.timestamp():
            left = "are" if several else "is"
            return f"{who} {left} past the time limit and about to leave {where}"
        return f"{who} {make} room for it on {where} by {when}"

    def _kept(self, job: Pending, pool: Pool, shape: Shape, ahead: int) -> str:
        """There is room, but others are promised it."""
        fitting = [r for r in shape.ready if r.fits(shape.asked, shape.masks[r.node.id])]
        booked = [held for room in fitting for held in room.booked if held.job_id != job.id]
        if not booked:
            wait = "waits" if ahead == 1 else "wait"
            return f"Jobs start in their order here, and {count(ahead, 'job')} {wait} ahead of it."
        first = min(booked, key=lambda held: (held.start, held.job_id))
        names = listed((room.node.name for room in fitting), 3)
        label = self._others.holding([first.job_id])[0]
        when = latest(datetime.fromtimestamp(first.start, UTC), self._now)
        lasts = first.start - self._now.timestamp()
        text = (
            f"What it needs is free (on {names}), but kept for job {label}, which starts by {when}"
        )
        if LEAST_S <= lasts < job.walltime_s:
            text += f"; with a time limit of {span(lasts)} it could run before"
        return f"{text}."


def _opening(job: Pending, pool: Pool, promise: Promise, last: float) -> Closure | None:
    """The reservation whose end its place waits for, after `last`, when the last job is gone."""
    site = {room.node.id for room, _ in promise.site}
    found = (
        closure
        for closure in pool.closures
        if closure.id not in job.reservations
        and closure.node_ids & site
        and last < closure.end <= promise.at
    )
    return max(found, key=lambda closure: (closure.end, closure.id), default=None)


def _unless(aside: Iterable[Pending], moment: datetime, others: Others) -> str:
    """Promises look at jobs that wait for room: who waits for something else may come before."""
    first = [job for job in aside if job.begin_at is None or job.begin_at < moment]
    if not first:
        return "at the latest"
    if len(first) == 1:
        which = f"job {others.holding([first[0].id])[0]}, which is ahead of it,"
    else:
        which = f"one of {len(first)} jobs that are ahead of it"
    return f"unless {which} starts there first"


def _reason(rule: Rule) -> Reason:
    return QUOTA_REASONS.get((rule.limited, rule.scope), Reason.QUOTA_GPUS)
