"""Whether quotas let a waiting job start, and where, if it does not count the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping

from jobs.scheduler.demand import largest, part_of
from jobs.scheduler.pool import Pool
from jobs.scheduler.shape import Shape
from jobs.scheduler.site import Site
from jobs.scheduler.snapshot import Pending
from jobs.scheduler.tally import BORROWS, FITS, Tally


def admit(job: Pending, pool: Pool, tally: Tally) -> tuple[int, Shape]:
    """What `Tally.check` says of the fewest GPUs that it may come to, and its class.

    Where it may come to more, only on nodes that are within the same limits at worst: it does not
    borrow for a larger node than it needs. A gang for which there are too few of these gets all,
    and has to be looked at again when it has a site.
    """
    shape = pool.shape_of(job)
    group = tally.group(job.project_id, job.user_id, job.band)
    verdict = tally.check(group, shape.gpus, shape.gpus * job.walltime_s)
    if not shape.varies or verdict not in (FITS, BORROWS):
        return verdict, shape
    good = {FITS, verdict}
    for most in _steps(shape.counts):
        gpus = largest(shape.counts.values(), shape.asked.nodes, most)
        if tally.check(group, gpus, gpus * job.walltime_s) in good:
            narrow = pool.shape_of(job, most)
            return verdict, narrow if len(narrow.able) >= shape.asked.nodes else shape
    return verdict, shape


def gpus_of(shape: Shape, site: Site) -> float:
    """As how many GPUs a job counts where it is placed."""
    if not shape.varies:
        return shape.gpus
    if shape.asked.exclusive:
        return float(sum(len(room.gpus) for room, _ in site))
    return math.fsum(
        part_of(room.gpus[at], shape.asked) for room, part in site for at, _ in part.shards
    )


def _steps(counts: Mapping[int, tuple[float, ...]]) -> list[float]:
    return sorted({count for found in counts.values() for count in found}, reverse=True)
