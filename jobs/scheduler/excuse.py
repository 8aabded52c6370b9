"""Why a request cannot be served by waiting for other jobs to end, if so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobs.scheduler import explain
from jobs.scheduler.fit import is_near, refuse, remedy
from jobs.scheduler.limits import Demand
from jobs.scheduler.pool import Pool
from jobs.scheduler.quota import QuotaTree
from jobs.scheduler.shape import Shape
from jobs.scheduler.snapshot import Explanation, Node, Pending
from jobs.spec import Resources


class Excuses:
    """Found once for all equal requests of a partition."""

    def __init__(self, pools: Mapping[str, Pool], tree: QuotaTree) -> None:
        self._pools = pools
        self._tree = tree
        self._found: dict[tuple[object, ...], Explanation | None] = {}
        self._rooms: dict[int, Explanation | None] = {}
        """By class."""

    def of(self, job: Pending) -> Explanation | None:
        """Forbidden meanwhile, or no such nodes, or too few of them take jobs at the moment."""
        about: tuple[object, ...] = (job.partition, job.resources)
        if self._tree.judges(job.project_id, job.band):
            about = (*about, job.walltime_s, job.project_id, job.band)
        if about not in self._found:
            self._found[about] = self._look(job)
        return self._found[about]

    def _look(self, job: Pending) -> Explanation | None:
        pool = self._pools.get(job.partition)
        if pool is None:
            return explain.no_nodes(job.partition)
        shape = pool.shape_of(job)
        refusal = self._tree.forbids(_demand(job, shape.gpus))
        if refusal is not None:
            return explain.forbidden(refusal.sentence)
        if id(shape) not in self._rooms:
            self._rooms[id(shape)] = _no_room(pool, shape)
        return self._rooms[id(shape)]


def _no_room(pool: Pool, shape: Shape) -> Explanation | None:
    asked = shape.asked
    nodes = [room.node for room in pool.rooms]
    able, ready = ([room.node for room in found] for found in (shape.able, shape.ready))
    if len(able) < asked.nodes or not is_near(asked, able):
        found = no_such_nodes(asked, nodes, nodes[0].partition)
        if found is None and shape.models is not None:
            return explain.models_missing(shape.models, nodes[0].partition)
        return found or explain.never_fits("does not fit", remedy(asked, nodes, nodes[0].partition))
    if len(ready) < asked.nodes or not is_near(asked, ready):
        return explain.nodes_unavailable(asked, able, nodes)
    return None


def no_such_nodes(asked: Resources, nodes: Sequence[Node], partition: str) -> Explanation | None:
    """Why the partition's nodes cannot hold it, whatever is free; None where they can."""
    refusal = refuse(asked, nodes, partition)
    return explain.never_fits(refusal, remedy(asked, nodes, partition)) if refusal else None


def _demand(job: Pending, gpus: float) -> Demand:
    return Demand(
        job_id=job.id,
        project_id=job.project_id,
        user_id=job.user_id,
        band=job.band,
        gpus=gpus,
        walltime_s=job.walltime_s,
        partition=job.partition,
        gpu_model=job.resources.gpu_model,
    )
