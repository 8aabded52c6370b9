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
    """The first to be looked at in front: who others make room for, then by band, and in each the
    first job that every user of a project has in a partition before anybody's second, as else who
    submits most would have all that is looked at; the held ones last; and of an array not more
    tasks than may start soon."""
    ranks = (When(band=band.value, then=Value(band.rank)) for band in Band)
    turn = Window(
        RowNumber(),
        partition_by=("held", "partition_id", "band", "project_id", "owner_id"),
        order_by=("submitted_at", "id"),
    )
    told = Job.objects.filter(pk__in=_startable_soon(waiting).values("pk"))
    return told.annotate(turn=turn, rank=Case(*ranks, default=Value(0))).order_by(
        "held", F("claimed_at").asc(nulls_last=True), "-rank", "turn", "submitted_at", "id"
    )


def _startable_soon(waiting: QuerySet[Job]) -> QuerySet[Job]:
    """Without the tasks that their arrays' limits keep back for long."""
    # SQLite tells a null of JSON as this word.
    limit = Cast(NullIf(KT("spec__array__limit"), Value("null")), IntegerField())
    nth = Window(RowNumber(), partition_by=F("array_id"), order_by=("held", "id"))
    told = waiting.annotate(limit=limit, nth=nth)
    return told.filter(Q(array_id=None) | Q(limit=None) | Q(nth__lte=F("limit") + SPARE))
