"""The cluster of a snapshot, ready to be planned for."""

from __future__ import annotations

import math
from collections import defaultdict

from jobs.scheduler.closures import Closure
from jobs.scheduler.pool import Pool
from jobs.scheduler.quota import QuotaTree
from jobs.scheduler.snapshot import Node, Snapshot


def pools_of(snapshot: Snapshot, now: float, tree: QuotaTree | None = None) -> dict[str, Pool]:
    """By partition, with who runs there and until when, and what is reserved from now on.

    `tree`: the quotas that tell which GPU models a job may use.
    """
    closures = [
        Closure(one.id, one.name, one.start.timestamp(), one.end.timestamp(), one.node_ids)
        for one in sorted(snapshot.reservations, key=lambda one: (one.start, one.id))
        if one.end.timestamp() > now
    ]
    nodes: dict[str, list[Node]] = defaultdict(list)
    for node in snapshot.nodes:
        nodes[node.partition].append(node)
    pools = {name: Pool.of(found, closures) for name, found in sorted(nodes.items())}
    for pool in pools.values():
        pool.models = tree.gpu_models if tree and tree.limits_models else None
    rooms = {room.node.id: room for pool in pools.values() for room in pool.rooms}
    for job in snapshot.running:
        end = math.inf if job.is_stuck(now) else job.ends_by.timestamp()
        for node_id in set(job.node_ids):
            if node_id in rooms:
                rooms[node_id].tell(job.id, end, job.cpus_per_node, job.memory_mib_per_node)
    return pools
