"""Jobs as rows of a list, an array's as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Prefetch, QuerySet

from jobs.lifecycle import Reason, State
from portal.models import Allocation, Attempt, Job
from portal.queries.arrays import Summary, several, summaries

_NOT_COMPETING = (
    Reason.HELD_USER,
    Reason.HELD_LAUNCH,
    Reason.BEGIN_TIME,
    Reason.DEPENDENCY,
    Reason.DEPENDENCY_NEVER,
    Reason.ARRAY_LIMIT,
    Reason.BAD_CONSTRAINTS,
)
"""Jobs that wait for something else than their turn have no place in the queue."""


@dataclass(frozen=True)
class Position:
    """`place` of `of` jobs that wait for their turn in the same partition; 1 is next."""

    place: int
    of: int


@dataclass(frozen=True)
class Row:
    """A job of the list, or one of an array's jobs for several of them."""

    job: Job
    position: Position | None
    """None where nothing waits for its turn."""
    array: Summary | None = None
    """Given when the row stands for an array; `job` is any one of it that fits the filter."""
    waiting: Job | None = None
    """Which job waits: this one, or the array's next."""

    @property
    def key(self) -> int:
        """What no two rows of a page have in common."""
        return self.array.id if self.array else self.job.pk


def rows(listed: Iterable[Job], *, of: QuerySet[Job] | None) -> list[Row]:
    """What a list shows of these jobs, fetched by `with_row_parts`.

    `of` are the jobs that the list was made of when arrays were folded; None: they were not.
    """
    jobs = list(listed)
    many = several(of, {job.array_id for job in jobs if job.array_id}) if of is not None else set()
    arrays = summaries(many)
    nexts = Job.objects.select_related("partition").in_bulk(
        [array.next_id for array in arrays.values() if array.next_id]
    )
    found = []
    for job in jobs:
        array = arrays.get(job.array_id) if job.array_id else None
        waiting = nexts.get(array.next_id) if array else job if job.waiting else None
        found.append((job, array, waiting))
    places = positions([waiting for _, _, waiting in found if waiting])
    return [
        Row(job, places.get(waiting.pk) if waiting else None, array, waiting)
        for job, array, waiting in found
    ]


def with_row_parts(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Jobs with all that `queue/row.html` shows, in a constant number of queries."""
    parts = Allocation.objects.select_related("node").order_by("rank")
    attempts = Attempt.objects.order_by("-number").prefetch_related(Prefetch("allocations", parts))
    return jobs.select_related("owner", "project", "partition").prefetch_related(
        Prefetch("attempts", attempts)
    )


def positions(jobs: list[Job]) -> dict[int, Position]:
    """Where these waiting jobs stand, by id; those that wait for something else have no place."""
    if not jobs:
        return {}
    partitions = {job.partition_id for job in jobs}
    competing = (
        Job.objects.filter(state=State.PENDING, held=False, partition__in=partitions)
        .exclude(reason__in=_NOT_COMPETING)
        .order_by("submitted_at", "id")
        .values_list("pk", "partition_id")
    )
    wanted = {job.pk for job in jobs}
    places: dict[int, tuple[int, int]] = {}
    lengths = dict.fromkeys(partitions, 0)
    for pk, partition in competing.iterator(chunk_size=5000):
        lengths[partition] += 1
        if pk in wanted:
            places[pk] = (lengths[partition], partition)
    return {pk: Position(place, lengths[where]) for pk, (place, where) in places.items()}
