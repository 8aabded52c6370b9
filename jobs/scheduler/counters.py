"""What is left of quotas while a plan is being made, who has the rest, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import (
    Excess,
    Limited,
    Quota,
    Rule,
    Scope,
    Standing,
    Usage,
)
from jobs.scheduler.periods import Rolling, Slice, Tail, room_again
from jobs.scheduler.quota import MICROS, NOBODY, micros, parts
from jobs.scheduler.quota_words import excess
from jobs.scheduler.tally import SCALE, Counter, Group, Tally


class Counters(Tally):
    """A tally that can tell why, and how much is left."""

    def __init__(
        self,
        projects: Iterable[Project],
        quotas: Iterable[Quota],
        usage: Usage,
        lends: frozenset[int | None] = NOBODY,
    ) -> None:
        super().__init__(projects, quotas, usage, lends)
        self._tails: dict[int, tuple[int, Tail]] = {}
        """By limit, each as of so many changes."""
        self._told: dict[tuple[int, ...], Excess] = {}

    def why(self, group: int, gpus: float, gpu_seconds: float) -> tuple[Excess, ...]:
        """All limits that are in the way of a job, where `check` tells the first."""
        mine = self._groups[group]
        amounts = ((mine.jobs, 1), (mine.gpus, parts(gpus)), (mine.micros, micros(gpu_seconds)))
        return tuple(
            self._excess(mine, counter, asked)
            for counters, asked in amounts
            for counter in counters
            if asked and counter.taken + asked > counter.limit
        )

    def why_not_submit(self, group: int, jobs: int = 1) -> tuple[Excess, ...]:
        """The limits that so many more waiting jobs would exceed."""
        mine = self._groups[group]
        return tuple(
            self._excess(mine, counter, jobs)
            for counter in mine.pending
            if counter.taken + jobs > counter.limit
        )

    def standing(self, quota: Quota, user_id: int | None = None) -> dict[Limited, Standing]:
        """How much is left of each of a quota's numbers; `user_id` for one of each user."""
        user_id = user_id if quota.scope is Scope.USER else None
        found = {}
        for rule in self.tree.of(quota):
            if rule.limited in SCALE:
                counter = self._counters.get((*rule.kind, user_id)) or Counter(0, rule, user_id)
                used, held = _figures(counter)
                found[rule.limited] = Standing(rule.limit, used, held)
        return found

    def _excess(self, mine: Group, counter: Counter, asked: int) -> Excess:
        """The same is told to many: sentences are made once."""
        rule = counter.rule
        owed = rule.limited is Limited.LENDING and self._is_owed(mine, rule, asked)
        changes = len(self._charged) if rule.limited is Limited.GPU_HOURS else 0
        about = (counter.index, counter.taken, changes, asked, owed)
        found = self._told.get(about)
        if found is None:
            used, held = _figures(counter)
            found = self._told[about] = excess(
                rule,
                user_id=counter.user_id,
                used=used,
                held=held,
                asked=asked / SCALE[rule.limited],
                until=self._until(counter, asked),
                owed=owed,
                now=self._usage.at,
            )
        return found

    def _is_owed(self, mine: Group, pool: Rule, asked: int) -> bool:
        """Whether the project of this group that has to do with these lenders asks for its own."""
        return any(
            guarded.rule.project_id in self.tree.lenders[pool.project_id]
            and guarded.has_room(asked)
            for guarded in mine.guarantees
        )

    def _until(self, counter: Counter, charge: int) -> datetime | None:
        period = counter.rule.period
        if period is None or charge > counter.limit:
            return None
        known = self._tails.get(counter.index)
        if known is None or known[0] != len(self._charged):
            known = (len(self._charged), Tail(self._slices(counter)))
            self._tails[counter.index] = known
        room = (counter.limit - charge) / MICROS
        return room_again(period, known[1], room, self._usage.at)

    def _slices(self, counter: Counter) -> Iterator[Slice]:
        """What was used, and what is charged as if it were used from now on."""
        # What was used in a calendar month counts to its end, whenever that was.
        if isinstance(counter.rule.period, Rolling):
            yield from self.history(counter)
        at = self._usage.at.astimezone(UTC)
        for group, gpus, gpu_seconds in self._charged:
            lasts = timedelta(seconds=abs(gpu_seconds) / gpus)
            if lasts and counter in self._groups[group].micros:
                yield Slice(at, at + lasts, gpu_seconds)


def _figures(counter: Counter) -> tuple[float, float]:
    """What is used, and what is held beside it."""
    scale = SCALE[counter.rule.limited]
    if counter.rule.limited is Limited.GPU_HOURS:
        return counter.used / scale, (counter.taken - counter.used) / scale
    return counter.taken / scale, 0.0
