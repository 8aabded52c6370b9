"""What the owner of a waiting job could change for it to start sooner, tried at this moment."""

from __future__ import annotations

from datetime import datetime

from jobs.scheduler.advise import Advice, advise
from portal.models import Job
from portal.queries import snapshot


class NotReached(Exception):
    """So many wait that a pass does not look at this job, or it waits no more."""


def advice(job: Job, now: datetime) -> Advice | None:
    """The one change that starts it soonest; None if none does so noticeably sooner.

    Several whole passes: seconds where thousands wait. Raises `NotReached`.
    """
    present = snapshot.take(now)
    if all(waits.id != job.pk for waits in present.pending):
        raise NotReached
    return advise(present, job.pk, now)
