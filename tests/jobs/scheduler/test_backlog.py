"""What a forecast knows of its nodes must be what these say themselves."""

from __future__ import annotations

from hypothesis import given

from jobs.scheduler.backlog import Backlog
from jobs.scheduler.cluster import pools_of
from jobs.scheduler.lines import Kind
from jobs.scheduler.place import Place
from jobs.scheduler.snapshot import Snapshot
from tests.jobs.scheduler.clusters import NOW
from tests.jobs.scheduler.generated import snapshots

MOMENT = NOW.timestamp()


def fits(kind: Kind, place: Place) -> bool:
    """Whether there is room for its part, and the place is kept for nobody else."""
    mask = kind.masks.get(place.node_id)
    if mask is None or not kind.is_open(place, MOMENT, MOMENT + 1):
        return False
    return place.fits(kind.asked, mask)


def agrees(kind: Kind, places: list[Place]) -> None:
    """Of one kind all nodes, one by one."""
    assert sorted(kind.fitting) == [place.node_id for place in places if fits(kind, place)]


@given(snapshots(most=20))
def test_what_fits_where_is_known_of_all_kinds_at_once(snapshot: Snapshot) -> None:
    """At the beginning, and after each has taken and given back what it can on each node."""
    for name, pool in pools_of(snapshot, MOMENT).items():
        places = [Place(room, order) for order, room in enumerate(pool.rooms)]
        backlog = Backlog(name, places)
        jobs = [job for job in snapshot.pending if job.partition == name]
        kinds = [backlog.kind(pool.shape_of(job)) for job in jobs]
        backlog.begin(MOMENT)
        there = []
        for kind, job in zip(kinds, jobs, strict=True):
            for place in list(kind.fitting.values())[: job.id % 3]:
                place.take(job.id, kind.asked, kind.masks[place.node_id], MOMENT + job.walltime_s)
                backlog.taken(place, MOMENT)
                there.append((job.id, place))
        for kind in kinds:
            agrees(kind, places)
        for job_id, place in there[::2]:
            place.leave(job_id)
            backlog.freed(place, MOMENT)
        for kind in kinds:
            agrees(kind, places)
