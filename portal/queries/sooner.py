"""What the owner of a waiting job could change for it to start sooner, tried at this moment."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Max

from jobs.scheduler.advise import Advice, advise
from jobs.scheduler.limits import Demand
from jobs.scheduler.quota import QuotaTree
from jobs.scheduler.rank import Sizes
from jobs.scheduler.snapshot import Pending, Snapshot
from portal.models import Event, Job
from portal.queries import partitions, snapshot


class NotReached(Exception):
    """So many wait that a pass does not look at this job, or it waits no more."""


def advice(job: Job, now: datetime) -> Advice | None:
    """The one change that starts it soonest; None if none does so noticeably sooner.

    Several whole passes: seconds where thousands wait. Raises `NotReached`.
    """
    present = snapshot.take(now)
    waits = next((one for one in present.pending if one.id == job.pk), None)
    if waits is None:
        raise NotReached
    return advise(present, job.pk, now, _elsewhere(job, waits, present))


def last_event() -> int:
    """As long as it is the same nobody came, went, or changed what decides."""
    return Event.objects.aggregate(last=Max("pk"))["last"] or 0


def _elsewhere(job: Job, waits: Pending, present: Snapshot) -> Iterator[str]:
    """Partitions that would take it in. The practice lab is no place for work, nor the reverse."""
    tree = QuotaTree(present.projects, present.quotas, present.lends)
    sizes = Sizes(present.nodes)
    for other in partitions.for_jobs().exclude(pk=job.partition_id):
        asked = Demand(
            job.pk, waits.project_id, waits.user_id, waits.band,
            sizes.asked(other.name, waits.resources), waits.walltime_s, other.name,
            waits.resources.gpu_model,
        )  # fmt: skip
        same = (other.name == partitions.PRACTICE) == (job.partition.name == partitions.PRACTICE)
        long_enough = other.max_walltime_s is None or other.max_walltime_s >= waits.walltime_s
        its_band = job.band in other.bands_for(job.owner)
        if same and long_enough and its_band and tree.refuse(asked) is None:
            yield other.name
