"""Which jobs a pass looks at where more wait than it can."""

from __future__ import annotations

from django.db.models import Case, F, IntegerField, Q, QuerySet, Value, When, Window
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, NullIf, RowNumber

from jobs.bands import Band
from portal.models import Job

SPARE = 20
"""Tasks of an array that are looked at beyond as many as its limit lets run: they follow at once
when those end."""


def in_sight(waiting: QuerySet[Job]) -> QuerySet[Job]:
    """The first to be looked at in front: who others make room for, then by band and submission,
    the held ones last; and of an array not more tasks than may start soon."""
    ranks = (When(band=band.value, then=Value(band.rank)) for band in Band)
    # SQLite tells a null of JSON as this word.
    limit = Cast(NullIf(KT("spec__array__limit"), Value("null")), IntegerField())
    nth = Window(RowNumber(), partition_by=F("array_id"), order_by=("held", "id"))
    told = waiting.annotate(limit=limit, nth=nth, rank=Case(*ranks, default=Value(0)))
    return told.filter(Q(array_id=None) | Q(limit=None) | Q(nth__lte=F("limit") + SPARE)).order_by(
        "held", F("claimed_at").asc(nulls_last=True), "-rank", "submitted_at", "id"
    )
