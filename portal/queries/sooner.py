"""What the owner of a waiting job could change for it to start sooner, tried at this moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.db.models import Max

from jobs.bands import Band
from jobs.scheduler.advise import Advice, advise
from jobs.scheduler.limits import Demand
from jobs.scheduler.quota import QuotaTree
from jobs.scheduler.rank import Sizes
from jobs.scheduler.snapshot import Pending, Snapshot
from portal.models import Event, Job, Partition
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
    places = _Places(job, waits, present)
    return advise(present, job.pk, now, places.partitions(), places.bands())


def last_event() -> int:
    """As long as it is the same nobody came, went, or changed what decides."""
    return Event.objects.aggregate(last=Max("pk"))["last"] or 0


@dataclass(frozen=True)
class _Places:
    """Where else the job would be taken in."""

    job: Job
    waits: Pending
    present: Snapshot

    def partitions(self) -> Iterator[str]:
        """The practice lab is no place for work, nor the reverse."""
        practice = self.job.partition.name == partitions.PRACTICE
        for other in partitions.for_jobs().exclude(pk=self.job.partition_id):
            same = (other.name == partitions.PRACTICE) == practice
            longest = other.max_walltime_s
            long_enough = longest is None or longest >= self.waits.walltime_s
            if same and long_enough and self._is_taken(other, self.waits.band):
                yield other.name

    def bands(self) -> Iterator[Band]:
        """Best-effort, which counts against no quota."""
        band = Band.BEST_EFFORT
        if self.waits.band is not band and self._is_taken(self.job.partition, band):
            yield band

    def _is_taken(self, partition: Partition, band: Band) -> bool:
        waits = self.waits
        asked = Demand(
            self.job.pk, waits.project_id, waits.user_id, band,
            self._sizes.asked(partition.name, waits.resources), waits.walltime_s,
            partition.name, waits.resources.gpu_model,
        )  # fmt: skip
        return band in partition.bands_for(self.job.owner) and self._quotas.refuse(asked) is None

    @cached_property
    def _sizes(self) -> Sizes:
        return Sizes(self.present.nodes)

    @cached_property
    def _quotas(self) -> QuotaTree:
        return QuotaTree(self.present.projects, self.present.quotas, self.present.lends)
