"""Why a request cannot be served by waiting for other jobs to end, if so."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.scheduler import explain
from jobs.scheduler.fit import is_near, refuse
from jobs.scheduler.pool import Pool
from jobs.scheduler.snapshot import Explanation, Pending
from jobs.spec import Resources


class Excuses:
    """Found once for all equal requests of a partition."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        self._pools = pools
        self._found: dict[tuple[str, Resources], Explanation | None] = {}

    def of(self, job: Pending) -> Explanation | None:
        """No such nodes, or too few of them take jobs at the moment."""
        about = (job.partition, job.resources)
        if about not in self._found:
            pool = self._pools.get(job.partition)
            self._found[about] = _look(pool, job) if pool else explain.no_nodes(job.partition)
        return self._found[about]


def _look(pool: Pool, job: Pending) -> Explanation | None:
    asked, shape = job.resources, pool.shape_of(job)
    nodes = [room.node for room in pool.rooms]
    able, ready = ([room.node for room in found] for found in (shape.able, shape.ready))
    if len(able) < asked.nodes or not is_near(asked, able):
        return explain.never_fits(refuse(asked, nodes, nodes[0].partition) or "does not fit")
    if len(ready) < asked.nodes or not is_near(asked, ready):
        return explain.nodes_unavailable(asked, able, nodes)
    return None
