"""What was used, as of one moment: the ledger, and what is not in it yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from django.db import connection
from django.db.models import Q, QuerySet, Sum

from jobs.scheduler.fairshare import Association
from jobs.scheduler.limits import Key
from jobs.scheduler.periods import Period, Slice
from jobs.scheduler.usage import Charge as Cost
from jobs.scheduler.usage import EntryPenalty, Usage, usage_of
from portal.models import Accounting, Allocation, Charge, DailyUsage, Prepared, UsageBalance
from portal.queries import days, holdings
from portal.queries.holdings import Holdings
from portal.queries.meters import Meter, meters, terms, weights

COLUMNS = ("project_id", "user_id", "band", "gpu_model")
ACCOUNT = ("project_id", "user_id", "band")
T = TypeVar("T")
LONGEST = timedelta(hours=26)
"""Of a charge: a day on which clocks are set back."""


class Amount(NamedTuple):
    """GPU-seconds, as they passed and weighted; neither is decayed."""

    gpu_seconds: float = 0.0
    weighted: float = 0.0


class Use(NamedTuple):
    """Some use, by the names of its columns; `day` is when its day began."""

    day: datetime
    project_id: int
    user_id: int
    band: str
    gpu_model: str
    amount: Amount


@dataclass(frozen=True)
class Only:
    """What counts of all use; None is all."""

    projects: frozenset[int] | None = None
    users: frozenset[int] | None = None
    bands: frozenset[str] | None = None
    gpu_models: frozenset[str] | None = None

    @property
    def _sets(self) -> Iterator[tuple[str, frozenset[Any]]]:
        given = (self.projects, self.users, self.bands, self.gpu_models)
        for name, among in zip(COLUMNS, given, strict=True):
            if among is not None:
                yield name, among

    @property
    def condition(self) -> Q:
        """For the tables of the ledger."""
        return Q(**{f"{name}__in": among for name, among in self._sets})

    def holds(self, part: Use) -> bool:
        """The same, of what is not in them yet."""
        return all(getattr(part, name) in among for name, among in self._sets)


ALL = Only()
_BALANCE = ("project_id", "user_id", "value", "at")
_balances = Prepared[Any](lambda: UsageBalance.objects.order_by("pk").values_list(*_BALANCE))
_uncharged = Prepared[Any](
    lambda: Allocation.objects.filter(charged=False).values_list("pk", "charged_until")
)


@dataclass(frozen=True)
class Books:
    """Everything is as if all had been charged up to `now`, however long ago that was done."""

    now: datetime
    running: list[Meter]
    terms: Accounting
    alone: bool
    """They were read where nobody else writes meanwhile."""

    @classmethod
    def read(cls, now: datetime, held: Holdings | None = None) -> Books:
        """Of all that hold something, which is read unless it is given."""
        charged, held = terms(), holdings.read() if held is None else held
        running = meters(held, weights(charged)) if held.parts else []
        return cls(now, running, charged, _alone())

    def balances(self) -> dict[Association, float]:
        """Weighted GPU-seconds, decayed to now: what fair share looks at.

        What has just begun counts as if it had gone on further: the entry penalty.
        """
        decay, penalty = self.terms.decay, EntryPenalty(self.terms.entry_penalty)
        found: dict[Association, float] = defaultdict(float)
        rows, running = self._at_once(_balances.rows)
        for project_id, user_id, value, at in rows:
            found[project_id, user_id] += self._seen(Usage(value, at))
        for meter in running:
            spent = usage_of(Cost(meter.weighted, meter.start, meter.end(self.now)), decay)
            found[meter.account[:2]] += self._seen(spent)
            if meter.released_at is None:
                held_s = (self.now - meter.held_since).total_seconds()
                left = penalty.remaining(meter.weighted, meter.walltime_s, held_s)
                found[meter.account[:2]] += left
        return dict(found)

    def _at_once(self, read: Callable[[], list[T]]) -> tuple[list[T], list[Meter]]:
        """What is in the ledger, and what is held that is not in it yet.

        Each query sees what was committed before it: what has been charged since it was read who
        holds what would count twice.
        """
        running = self.running
        while True:
            found = read()
            if self.alone and _alone():
                return found, running
            charged = dict(_uncharged.rows() if running else ())
            if all(charged.get(meter.allocation_id) == meter.start for meter in running):
                return found, running
            known = {meter.allocation_id for meter in running}
            fresh = meters(holdings.read(), weights(self.terms))
            running = [meter for meter in fresh if meter.allocation_id in known]

    def _seen(self, usage: Usage) -> float:
        # A clock that was ahead has left moments still to come: seen from before, they would grow.
        return usage.seen(max(self.now, usage.at), self.terms.decay).value

    def used(self, periods: Iterable[Period]) -> dict[Period, dict[Key, float]]:
        """GPU-seconds since each period began, of running jobs too: what quotas look at."""
        return {
            period: {
                key: amount.gpu_seconds
                for key, amount in self.sums(ACCOUNT, period.begin(self.now), self.now).items()
            }
            for period in periods
        }

    def history(self, since: datetime, only: Only) -> tuple[Slice, ...]:
        """The same of some, day by day."""
        found = []
        for (day,), amount in sorted(self.sums(("day",), since, self.now, only).items()):
            start, end = max(day, since), min(days.end(day), self.now)
            if amount.gpu_seconds > 0 and start < end:
                found.append(Slice(start, end, amount.gpu_seconds))
        return tuple(found)

    def sums(
        self, by: Sequence[str], since: datetime, until: datetime, only: Only = ALL
    ) -> dict[Any, Amount]:
        """What was used from one moment to another, by these columns of `Use`."""
        found: dict[Any, Amount] = defaultdict(Amount)
        for part in self._parts(by, since, until, only):
            key = tuple(getattr(part, name) for name in by)
            known = found[key]
            found[key] = Amount(
                known.gpu_seconds + part.amount.gpu_seconds, known.weighted + part.amount.weighted
            )
        return dict(found)

    def _parts(self, by: Sequence[str], since: datetime, until: datetime, only: Only) -> list[Use]:
        """Whole days are read from their sums; of the first and the last one the charges are."""
        first, last = days.begin(since), days.begin(until)
        if first < since:
            first = days.end(since)
        if first > last:
            first = last = until
        whole = DailyUsage.objects.filter(only.condition, day__gte=first, day__lt=last)

        def charged() -> list[Use]:
            found = list(_summed(whole, by))
            for start, end in ((since, first), (last, until)):
                if start < end:
                    found += _of_a_part(start, end, by, only)
            return found

        parts, running = self._at_once(charged)
        uncharged = self._uncharged(running, since, until)
        return [*parts, *(part for part in uncharged if only.holds(part))]

    def _uncharged(
        self, running: Iterable[Meter], since: datetime, until: datetime
    ) -> Iterator[Use]:
        for meter in running:
            start, end = max(meter.start, since), min(meter.end(self.now), until)
            for begin, stop in days.split(start, end):
                seconds = (stop - begin).total_seconds()
                for rate in meter.rates:
                    amount = Amount(rate.gpus * seconds, rate.weighted * seconds)
                    yield Use(days.begin(begin), *meter.account, rate.gpu_model, amount)


def _alone() -> bool:
    """A transaction of SQLite begins when no other is under way; one of PostgreSQL sees what others
    commit."""
    return connection.vendor == "sqlite" and connection.in_atomic_block


_ANY: dict[str, Any] = {"project_id": 0, "user_id": 0, "band": "", "gpu_model": ""}


def _summed(rows: QuerySet[Any], by: Sequence[str], day: datetime | None = None) -> Iterator[Use]:
    """Sums made by the database. Columns that are not asked for tell nothing."""
    # Without any column there would be a row for each row.
    names = ["band", *(name for name in by if name != "band" and not (day and name == "day"))]
    sums = rows.order_by().values(*names).annotate(total=Sum("gpu_seconds"), cost=Sum("weighted"))
    for row in sums:
        known = {**_ANY, "day": day, **{name: row[name] for name in names}}
        yield Use(**known, amount=Amount(row["total"], row["cost"]))


def _of_a_part(start: datetime, end: datetime, by: Sequence[str], only: Only) -> Iterator[Use]:
    """Of less than a day. What lies across its borders was used evenly."""
    near = Charge.objects.filter(
        only.condition, starts_at__gt=start - LONGEST, starts_at__lt=end, ends_at__gt=start
    )
    across = Q(starts_at__lt=start) | Q(ends_at__gt=end)
    day = days.begin(start)
    yield from _summed(near.exclude(across), by, day)
    for row in near.filter(across):
        inside = min(row.ends_at, end) - max(row.starts_at, start)
        share = inside / (row.ends_at - row.starts_at)
        amount = Amount(row.gpu_seconds * share, row.weighted * share)
        yield Use(day, row.project_id, row.user_id, row.band, row.gpu_model, amount)
