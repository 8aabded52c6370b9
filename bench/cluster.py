"""A busy cluster and its queue, the same for every program that is asked to schedule it.

    running, pending = cluster(pending=5000)

100 nodes of 8 GPUs, 64 CPUs and 512,000 MiB; every GPU is held by a running job. Jobs ask 1 to 64
GPUs, whole nodes from 8 on, with 4 CPUs and 16 GiB a GPU, and walltimes people type, from 10
minutes to 7 days. 30 users in 8 projects, some of them far busier than others.

All of it follows from the seed, and a shorter queue is the beginning of a longer one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

NODES = 100
GPUS = 8
CPUS = 64
MEMORY_MIB = 512_000
CPUS_PER_GPU = 4
MEMORY_MIB_PER_GPU = 16 * 1024

USERS = 30
PROJECTS = 8

SIZES = {1: 35, 2: 15, 4: 15, 8: 15, 16: 10, 32: 6, 64: 4}
"""GPUs a job asks, with how many in a hundred jobs do."""

WALLTIMES_S = tuple(
    60 * minutes
    for minutes in (10, 30, 60, 120, 240, 480, 720, 1440, 2880, 4320, 7200, 10080)
)  # fmt: skip

RUNNING_AT_LEAST_S = 4 * 3600
"""No running job may end, and so change the question, while somebody measures."""

SEED = 3


@dataclass(frozen=True)
class Asked:
    """What a job asks for. `order` counts submissions from 0; `on` is where it runs, if it does.

    A running job has just begun: all of its walltime is still to come.
    """

    order: int
    user: int
    nodes: int
    gpus_per_node: int
    walltime_s: int
    on: tuple[int, ...] = ()
    """Nodes by their numbers, from 0."""

    @property
    def project(self) -> int:
        return self.user % PROJECTS

    @property
    def cpus_per_node(self) -> int:
        return self.gpus_per_node * CPUS_PER_GPU

    @property
    def memory_mib_per_node(self) -> int:
        return self.gpus_per_node * MEMORY_MIB_PER_GPU


def cluster(pending: int, seed: int = SEED) -> tuple[list[Asked], list[Asked]]:
    """The running jobs, which hold every GPU, and so many pending ones, in order of submission."""
    draw = random.Random(seed)
    running = _running(draw)
    first = len(running)
    return running, [_asked(draw, order, WALLTIMES_S) for order in range(first, first + pending)]


def _running(draw: random.Random) -> list[Asked]:
    """Draw jobs and place each on the fullest nodes that have room, until no GPU is free."""
    free = [GPUS] * NODES
    long = tuple(walltime for walltime in WALLTIMES_S if walltime >= RUNNING_AT_LEAST_S)
    found: list[Asked] = []
    while any(free):
        size = _size(draw)
        room = [node for node in range(NODES) if free[node] >= size[1]]
        if len(room) < size[0]:
            continue
        on = tuple(sorted(sorted(room, key=lambda node: free[node])[: size[0]]))
        for node in on:
            free[node] -= size[1]
        found.append(Asked(len(found), _user(draw), *size, draw.choice(long), on))
    return found


def _asked(draw: random.Random, order: int, walltimes_s: tuple[int, ...]) -> Asked:
    return Asked(order, _user(draw), *_size(draw), draw.choice(walltimes_s))


def _size(draw: random.Random) -> tuple[int, int]:
    """Nodes, and GPUs on each."""
    (gpus,) = draw.choices(tuple(SIZES), tuple(SIZES.values()))
    return max(1, gpus // GPUS), min(gpus, GPUS)


def _user(draw: random.Random) -> int:
    """The second busiest submits half as much as the busiest, the third a third, and so on."""
    return draw.choices(range(USERS), [1 / (1 + rank) for rank in range(USERS)])[0]
