"""What the jobs of a partition ask for, how often: what placement keeps room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from jobs.scheduler.snapshot import Snapshot
from jobs.spec import Resources

Mix = Mapping[Resources, int]


def mix(snapshot: Snapshot, partition: str) -> Counter[Resources]:
    """Of those that wait in it, and of those that run on its nodes."""
    here = {node.id for node in snapshot.nodes if node.partition == partition}
    found = Counter(job.resources for job in snapshot.pending if job.partition == partition)
    found.update(
        job.resources
        for job in snapshot.running
        if job.resources is not None and not here.isdisjoint(job.node_ids)
    )
    return found


def on_each_node(asked: Mix, largest: int) -> Counter[Resources]:
    """What that comes to node by node. A job that wants nodes for itself wants all of their GPUs.

    Once each, beside them: 1, 2, 4 and so on whole GPUs, up to those of the `largest` node, so
    that whole nodes stay whole also where nobody has asked for them lately.
    """
    found: Counter[Resources] = Counter()
    for resources, number in asked.items():
        found[_one_node(resources, largest)] += number * resources.nodes
    size = 1
    while size <= largest:
        found[Resources(gpus_per_node=size)] += 1
        size *= 2
    return found


@lru_cache(maxsize=4096)
def _one_node(asked: Resources, largest: int) -> Resources:
    """Whoever asks for certain nodes asks for such a thing."""
    return replace(
        asked,
        nodes=1,
        gpus_per_node=max(largest, asked.gpus_per_node) if asked.exclusive else asked.gpus_per_node,
        shards=0 if asked.exclusive else asked.shards,
        exclusive=False,
        only_nodes=(),
        not_nodes=(),
        max_switches=None,
    )
