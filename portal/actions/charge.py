"""Write down what was used: each moment of each allocation once, however often this is done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from portal.actions import balances, sums
from portal.models import Accounting, Allocation, Charge, DailyUsage, update_each
from portal.queries import days, holdings
from portal.queries.meters import Meter, Rate, meters, weights

EVERY = timedelta(minutes=1)
"""How long an allocation that goes on is left alone. Its end is charged as soon as it is seen."""
SENT = ~Q(phase=Allocation.Phase.PLANNED)
"""One whose launch was not sent yet may be taken back as if it had never been, and waits."""
BATCH = 200
"""In one transaction: who else wants to write on SQLite waits as long."""
MAX_BATCHES = 50
"""Of one call: it is bounded, and the next one goes on."""

DAILY = ("day", *balances.ACCOUNT, "gpu_model")


@dataclass(frozen=True)
class Piece:
    """A part of what an allocation held: of one day, and of GPUs of one model."""

    meter: Meter
    rate: Rate
    start: datetime
    end: datetime

    @property
    def _seconds(self) -> float:
        return (self.end - self.start).total_seconds()

    @property
    def gpu_seconds(self) -> float:
        return self.rate.gpus * self._seconds

    @property
    def weighted(self) -> float:
        return self.rate.weighted * self._seconds


def charge(*, now: datetime) -> int:
    """Charge every allocation for what it has held since it was last charged; how many were."""
    due = Q(charged_until__lte=now - EVERY) & SENT
    done = 0
    for _ in range(MAX_BATCHES):
        charged = _batch(now, due)
        done += charged
        if charged < BATCH:
            break
    return done


def catch_up(*, now: datetime) -> None:
    """Charge all for what they have held until now, however short that is: for the transaction of
    whoever changes what it costs. What is sent only later costs by the terms of then."""
    while _batch(now, Q(charged_until__lt=now) & SENT) == BATCH:
        pass


def catch_up_on_ended(*, now: datetime) -> None:
    """Charge what has ended to its end: for the transaction of whoever changes whom that counts
    for."""
    while _batch(now, Q(pk__in=[])) == BATCH:
        pass


@transaction.atomic
def _batch(now: datetime, due: Q) -> int:
    """One transaction: killed anywhere in it, it has done nothing."""
    # Nobody changes them meanwhile: all balances may be made anew then, and these would be missed.
    terms = Accounting.locked()
    due |= Q(released_at__isnull=False)
    open_ = Allocation.objects.filter(due, charged=False).order_by("charged_until", "pk")
    # Whoever has one of them in hand is not waited for, and so nobody waits for us in a circle.
    ids = list(
        open_.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True)[:BATCH]
    )
    if not ids:
        return 0
    found = meters(holdings.of(Allocation.objects.filter(pk__in=ids)), weights(terms))
    pieces = list(_pieces(found, now))
    _write(ids, pieces)
    _add_up(pieces)
    balances.add(found, terms.decay, now)
    update_each(
        Allocation.objects.all(),
        {
            meter.allocation_id: {
                "charged_until": meter.end(now), "charged": meter.released_at is not None
            }
            for meter in found
        },
    )  # fmt: skip
    return len(ids)


def _pieces(found: Iterable[Meter], now: datetime) -> Iterator[Piece]:
    for meter in found:
        for start, end in days.split(meter.start, meter.end(now)):
            for rate in meter.rates:
                yield Piece(meter, rate, start, end)


def _write(ids: list[int], pieces: Iterable[Piece]) -> None:
    """A row for each piece, or the day's row made longer."""
    last = Charge.objects.filter(
        allocation__in=ids, ends_at=F("allocation__charged_until")
    )  # fmt: skip
    rows = {(row.allocation_id, row.gpu_model, row.ends_at): row for row in last}
    longer, new = {}, []
    for piece in pieces:
        row = rows.get((piece.meter.allocation_id, piece.rate.gpu_model, piece.start))
        if row is None or row.starts_at < days.begin(piece.start):
            new.append(_row(piece))
            continue
        longer[row.pk] = {
            "ends_at": piece.end,
            "gpu_seconds": row.gpu_seconds + piece.gpu_seconds,
            "weighted": row.weighted + piece.weighted,
        }
    update_each(Charge.objects.all(), longer)
    Charge.objects.bulk_create(new)


def _row(piece: Piece) -> Charge:
    return Charge(
        allocation_id=piece.meter.allocation_id,
        **dict(zip(balances.ACCOUNT, piece.meter.account, strict=True)),
        gpu_model=piece.rate.gpu_model,
        starts_at=piece.start,
        ends_at=piece.end,
        gpu_seconds=piece.gpu_seconds,
        weighted=piece.weighted,
    )


def _add_up(pieces: Iterable[Piece]) -> None:
    of_day: dict[tuple[object, ...], list[Piece]] = defaultdict(list)
    for piece in pieces:
        day = days.begin(piece.start)
        of_day[day, *piece.meter.account, piece.rate.gpu_model].append(piece)
    rows = sums.locked(DailyUsage.objects.all(), DAILY, of_day, gpu_seconds=0, weighted=0)
    update_each(
        DailyUsage.objects.all(),
        {
            rows[key].pk: {
                "gpu_seconds": rows[key].gpu_seconds + sum(piece.gpu_seconds for piece in alike),
                "weighted": rows[key].weighted + sum(piece.weighted for piece in alike),
            }
            for key, alike in of_day.items()
        },
    )
