"""Why a job waits for others: all that is in its way now, in plain sentences with true numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from jobs.lifecycle import Reason
from jobs.scheduler.counters import Counters
from jobs.scheduler.explain import unavailable
from jobs.scheduler.limits import Excess, Limited, Scope
from jobs.scheduler.pool import Pool, Promise, Shape, choose
from jobs.scheduler.room import Hold
from jobs.scheduler.shortage import need, shortage
from jobs.scheduler.snapshot import Explanation, Pending
from jobs.scheduler.waits import Others
from jobs.scheduler.words import count, jobs_named, latest, listed, span
from jobs.spec import Resources

QUOTA_REASONS = {
    (Limited.GPUS, Scope.PROJECT): Reason.QUOTA_GPUS,
    (Limited.GPUS, Scope.USER): Reason.QUOTA_USER_GPUS,
    (Limited.GPU_HOURS, Scope.PROJECT): Reason.QUOTA_GPU_HOURS,
    (Limited.GPU_HOURS, Scope.USER): Reason.QUOTA_GPU_HOURS,
    (Limited.JOBS_RUNNING, Scope.PROJECT): Reason.QUOTA_JOBS,
    (Limited.JOBS_RUNNING, Scope.USER): Reason.QUOTA_USER_JOBS,
}


class Blockers:
    """Tells after a pass what is in the way. Equal requests are told the same."""

    def __init__(
        self, pools: Mapping[str, Pool], counters: Counters, others: Others, now: datetime
    ) -> None:
        self._pools = pools
        self._counters = counters
        self._others = others
        self._now = now
        self._room: dict[int, str | None] = {}

    def explain(self, job: Pending, ahead: int) -> Explanation:
        """`ahead`: how many wait in its partition before it."""
        pool = self._pools[job.partition]
        shape = pool.shape_of(job)
        group = self._counters.group(job.project_id, job.user_id, job.band)
        limits = self._counters.why(group, job.gpus, job.gpus * job.walltime_s)
        missing = self._missing(shape)
        promise = pool.promises.get(job.id)
        room = []
        if missing is not None:
            room = [missing + self._outlook(shape, promise) + _away(shape)]
        elif (kept := self._reserved(job, pool, shape)) is not None:
            room = [kept]
            if not limits:
                return Explanation(Reason.RESERVATION, kept, ahead=ahead)
        elif not limits:
            return Explanation(Reason.PRIORITY, self._kept(job, pool, shape, ahead), ahead=ahead)
        if limits:
            sentences = [excess.sentence for excess in limits] + room
            return Explanation(_reason(limits[0]), sentences[0], tuple(sentences[1:]), ahead)
        return Explanation(Reason.RESOURCES, room[0], ahead=ahead)

    def _missing(self, shape: Shape) -> str | None:
        """What a request lacks on the nodes; None if there would be room."""
        if id(shape) not in self._room:
            asked, masks = shape.asked, shape.masks
            fitting = [room for room in shape.ready if room.fits(asked, masks[room.node.id])]
            fits = choose(asked, fitting) is not None
            text = None if fits else f"Needs {need(asked)}; {shortage(shape)}."
            self._room[id(shape)] = text
        return self._room[id(shape)]

    def _reserved(self, job: Pending, pool: Pool, shape: Shape) -> str | None:
        """The admin's reservation that it would run into, if that is what keeps it."""
        if not shape.closed:
            return None
        moment = self._now.timestamp()
        if choose(shape.asked, shape.fitting(moment + job.walltime_s)) is not None:
            return None
        spans = [
            closure
            for closure in pool.closures
            if closure.id not in job.reservations and closure.start < moment + job.walltime_s
        ]
        first = min(spans, key=lambda closure: (closure.start, closure.id))
        names = listed((r.node.name for r in pool.rooms if r.node.id in first.node_ids), 3)
        start, end = (latest(self._moment(at), self._now) for at in (first.start, first.end))
        if first.start <= moment:
            return f"Reserved for {first.name} until {end}: {names}."
        lasts = first.start - moment
        text = f"From {start} to {end} {names} are reserved for {first.name}"
        if choose(shape.asked, shape.fitting(moment + lasts)) is not None and lasts >= 60:
            return f"{text}; with a time limit of {span(lasts)} it could run before."
        return f"{text}."

    def _outlook(self, shape: Shape, promise: Promise | None) -> str:
        """Who makes room for it, and by when; nothing for those far behind."""
        if promise is None:
            known = any(held.end < math.inf for room in shape.ready for held in room.holds.values())
            return "" if known else " When that will be free is not known."
        gone = [
            held
            for room, _ in promise.site
            for held in room.holds.values()
            if held.end <= promise.at
        ]
        where = listed((room.node.name for room, _ in promise.site), 3)
        when = latest(self._moment(promise.at), self._now)
        if not gone:
            return f" It is promised {where} from {when} on."
        leaving = {held.job_id for held in gone}
        who = jobs_named(self._others.called(leaving))
        who = who[0].upper() + who[1:]
        several = len(leaving) > 1
        if max(held.end for held in gone) <= self._now.timestamp():
            left = "are" if several else "is"
            return f" {who} {left} past the time limit and about to leave {where}."
        does = _does(shape.asked, gone, several)
        return f" {who} {does} on {where} by {when} at the latest."

    def _moment(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, self._now.tzinfo)

    def _kept(self, job: Pending, pool: Pool, shape: Shape, ahead: int) -> str:
        """There is room, but others are promised it."""
        fitting = [r for r in shape.ready if r.fits(shape.asked, shape.masks[r.node.id])]
        booked = [held for room in fitting for held in room.booked if held.job_id != job.id]
        if not booked:
            return f"Jobs start in their order here, and {count(ahead, 'job')} wait ahead of it."
        first = min(booked, key=lambda held: (held.start, held.job_id))
        names = listed((room.node.name for room in fitting), 3)
        label = self._others.called([first.job_id])[0]
        when = latest(self._moment(first.start), self._now)
        lasts = first.start - self._now.timestamp()
        text = (
            f"What it needs is free (on {names}), but kept for job {label}, which starts by {when}"
        )
        if 60 <= lasts < job.walltime_s:
            text += f"; with a time limit of {span(lasts)} it could run before"
        return f"{text}."


def _does(asked: Resources, gone: Sequence[Hold], several: bool) -> str:
    """What whoever leaves does for the job."""
    freed = sum(held.part.touches().bit_count() for held in gone)
    if asked.nodes == 1 and asked.gpus_per_node and freed:
        return f"{'free' if several else 'frees'} {count(freed, 'GPU')}"
    return f"{'make' if several else 'makes'} room for it"


def _away(shape: Shape) -> str:
    """Nodes that could hold it, too, but take no jobs now."""
    away = [room.node for room in shape.able if room.node.unavailable]
    return f" Could hold it too, but takes no jobs now: {unavailable(away)}." if away else ""


def _reason(excess: Excess) -> Reason:
    return QUOTA_REASONS.get((excess.rule.limited, excess.rule.scope), Reason.QUOTA_GPUS)
