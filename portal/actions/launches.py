"""From an allocation to what its node needs to start the run."""

from __future__ import annotations

from portal.models import Allocation


def checkpoint_dir(part: Allocation) -> str:
    """Where the job's checkpoints go: the same path in every attempt and on every node.

    The time of submission keeps two portals' jobs apart that use one account.
    """
    job = part.attempt.job
    return f"{part.node.checkpoint_root}/job-{job.pk}-{job.submitted_at:%Y%m%dT%H%M%S}"
