"""Why a job waits for others: all that is in its way now, in plain sentences with true numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime

from jobs.lifecycle import Reason
from jobs.scheduler.counters import Counters
from jobs.scheduler.explain import unavailable
from jobs.scheduler.limits import Excess, Limited, Scope
from jobs.scheduler.pool import Pool, Promise, Shape, choose
from jobs.scheduler.shortage import need, shortage
from jobs.scheduler.snapshot import Explanation, Pending
from jobs.scheduler.waits import Others
from jobs.scheduler.words import count, jobs_named, latest, listed, span

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

    def explain(self, job: Pending, ahead: int, aside: Iterable[Pending] = ()) -> Explanation:
        """`ahead`: how many wait in its partition before it; `aside`: those of them that let it
        pass as long as something of their own, or a quota, keeps them back."""
        pool = self._pools[job.partition]
        shape = pool.shape_of(job)
        group = self._counters.group(job.project_id, job.user_id, job.band)
        limits = self._counters.why(group, job.gpus, job.gpus * job.walltime_s)
        missing = self._missing(shape)
        promise = pool.promises.get(job.id)
        room = []
        if missing is not None:
            room = [missing + self._outlook(shape, promise, aside) + self._away(shape)]
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
        start, end = (
            latest(datetime.fromtimestamp(at, self._now.tzinfo), self._now)
            for at in (first.start, first.end)
        )
        if first.start <= moment:
            return f"Reserved for {first.name} until {end}: {names}."
        lasts = first.start - moment
        text = f"From {start} to {end} {names} are reserved for {first.name}"
        if choose(shape.asked, shape.fitting(moment + lasts)) is not None and lasts >= 60:
            return f"{text}; with a time limit of {span(lasts)} it could run before."
        return f"{text}."

    def _away(self, shape: Shape) -> str:
        away = [room.node for room in shape.able if room.node.unavailable]
        return f" Could hold it too, but takes no jobs now: {unavailable(away)}." if away else ""

    def _is_unknown(self, shape: Shape) -> bool:
        """Whether too few nodes are left without those of which nobody knows who has them."""
        if not any(held.end == math.inf for r in shape.ready for held in r.holds.values()):
            return False
        now = self._now.timestamp()
        known = [room for room in shape.ready if shape.earliest(room, 1.0, now) < math.inf]
        return choose(shape.asked, known) is None

    def _outlook(self, shape: Shape, promise: Promise | None, aside: Iterable[Pending]) -> str:
        """Who makes room for it, and by when; nothing for those far behind."""
        if promise is None:
            unknown = self._is_unknown(shape)
            return " When that will be free is not known." if unknown else ""
        leaving = {
            held.job_id: held.end
            for room, part in promise.site
            for held in room.holds.values()
            if held.end <= promise.at
        }
        where = listed((room.node.name for room, _ in promise.site), 3)
        moment = datetime.fromtimestamp(promise.at, self._now.tzinfo)
        when = f"{latest(moment, self._now)} {_unless(aside, moment, self._others)}"
        last = max(leaving.values(), default=-math.inf)
        first = {
            h.job_id for room, _ in promise.site for h in room.booked if last < h.end <= promise.at
        }
        if first:
            goes = "go" if len(first) > 1 else "goes"
            who = jobs_named(self._others.holding(first))
            return f" {_capital(who)} {goes} first; there is room for it on {where} by {when}."
        if not leaving:
            return f" It has its place on {where} by {when}."
        who = _capital(jobs_named(self._others.holding(leaving)))
        several = len(leaving) > 1
        if last <= self._now.timestamp():
            left = "are" if several else "is"
            return f" {who} {left} past the time limit and about to leave {where}."
        verb = "make" if several else "makes"
        return f" {who} {verb} room for it on {where} by {when}."

    def _kept(self, job: Pending, pool: Pool, shape: Shape, ahead: int) -> str:
        """There is room, but others are promised it."""
        fitting = [r for r in shape.ready if r.fits(shape.asked, shape.masks[r.node.id])]
        booked = [held for room in fitting for held in room.booked if held.job_id != job.id]
        if not booked:
            return f"Jobs start in their order here, and {count(ahead, 'job')} wait ahead of it."
        first = min(booked, key=lambda held: (held.start, held.job_id))
        names = listed((room.node.name for room in fitting), 3)
        label = self._others.holding([first.job_id])[0]
        when = latest(datetime.fromtimestamp(first.start, self._now.tzinfo), self._now)
        lasts = first.start - self._now.timestamp()
        text = (
            f"What it needs is free (on {names}), but kept for job {label}, which starts by {when}"
        )
        if 60 <= lasts < job.walltime_s:
            text += f"; with a time limit of {span(lasts)} it could run before"
        return f"{text}."


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


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _reason(excess: Excess) -> Reason:
    return QUOTA_REASONS.get((excess.rule.limited, excess.rule.scope), Reason.QUOTA_GPUS)
