"""What fair share looks at: by account all that was charged, each charge faded since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from jobs.scheduler.limits import Key
from jobs.scheduler.usage import Charge as Cost
from jobs.scheduler.usage import Decay, Usage, usage_of
from portal.actions import sums
from portal.models import Charge, DailyUsage, UsageBalance, update_each
from portal.queries import days
from portal.queries.meters import Meter

ACCOUNT = ("project_id", "user_id", "band")
ONE_BY_ONE = timedelta(days=60)
"""How far back each charge is read by itself. Of longer ago a day is taken as a whole: with any
half-life that is wrong by a three hundredth part of what was charged at most."""


def add(meters: Iterable[Meter], decay: Decay, now: datetime) -> None:
    """Add what these are to be charged for until now."""
    spent: dict[Key, Usage] = {}
    for meter in meters:
        usage = usage_of(Cost(meter.weighted, meter.start, meter.end(now)), decay)
        known = spent.get(meter.account)
        spent[meter.account] = known.merged(usage, decay) if known else usage
    rows = sums.locked(UsageBalance.objects.all(), ACCOUNT, spent, value=0, at=now)
    _write({
        rows[key].pk: Usage(rows[key].value, rows[key].at).merged(usage, decay)
        for key, usage in spent.items()
    })  # fmt: skip


def make_anew(decay: Decay, now: datetime) -> None:
    """From all charges there are, as if they had always faded like this.

    A balance stands as of when it was last charged. If it only faded otherwise from there on, two
    who used the same at the same time would find it counted very differently.
    """
    values: dict[Key, float] = defaultdict(float)
    for key, weighted, start, end in _charged(now):
        length_s, since_s = (end - start).total_seconds(), (now - end).total_seconds()
        # What was charged by a clock that was ahead has not faded yet.
        left = decay.integral(length_s) / length_s * decay.factor(max(0.0, since_s))
        values[key] += weighted * left
    rows = sums.locked(UsageBalance.objects.all(), ACCOUNT, values, value=0, at=now)
    _write({rows[key].pk: Usage(value, now) for key, value in values.items()})


def _charged(now: datetime) -> Iterator[tuple[Key, float, datetime, datetime]]:
    """By account how much, and from when to when; a constant number of queries."""
    recent = days.begin(now - ONE_BY_ONE)
    by_day = DailyUsage.objects.filter(day__lt=recent).values_list(*ACCOUNT, "day", "weighted")
    ends: dict[datetime, datetime] = {}
    for *key, day, weighted in by_day.iterator():
        if day not in ends:
            ends[day] = days.end(day)
        yield tuple(key), weighted, day, ends[day]
    since = Charge.objects.filter(starts_at__gte=recent)
    for *key, weighted, start, end in since.values_list(
        *ACCOUNT, "weighted", "starts_at", "ends_at"
    ).iterator():
        yield tuple(key), weighted, start, end


def _write(balances: Mapping[int, Usage]) -> None:
    update_each(
        UsageBalance.objects.all(),
        {pk: {"value": usage.value, "at": usage.at} for pk, usage in balances.items()},
    )
