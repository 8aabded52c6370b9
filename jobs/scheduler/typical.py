"""What requests are like here, and what the rest of a node is worth to such requests.

What a node still has is worth what typical requests would use of it. A gap of `h` free shards on a
GPU, offered to requests as often as they come and taken by each that fits, ends up used by

    V(h) = sum of w(t) (t + V(h - t)) / sum of w(t),   over the typical requests of t <= h shards

on average: a fifth of a GPU is worth little where nearly nobody asks for so little. The CPUs and
the memory beside it limit that, request by request:

    worth(node) = sum over t of  u(t) min(1, afford(t) / copies(t))

with u(t) the part of V that t uses, summed over the node's GPUs, copies(t) how many of t its GPUs
could take and afford(t) how many its CPUs and memory could.

The idea to place by the change of such a measure is FGD's (Weng et al., "Beware of Fragmentation",
USENIX ATC 2023). It takes a gap for wholly used by whoever fits and wholly lost for whoever does
not, and CPUs for one more request as good as CPUs for all GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COVER = 0.95
"""The share of all requests that the typical ones make up; what is rarer guides nothing."""


@dataclass(frozen=True)
class Request:
    """What a job takes of one node: whole GPUs, or shards of one, or neither."""

    gpus: int = 0
    shards: int = 0
    cpus: int = 0
    memory: int = 0
    models: frozenset[str] = frozenset()
    """The GPU models that will do; empty when any will."""

    def order(self) -> tuple[object, ...]:
        """Sorts requests, whatever the order they came in."""
        return (self.gpus, self.shards, self.cpus, self.memory, sorted(self.models))


@dataclass(frozen=True)
class Typical:
    """The requests to keep room for, with weights that add up to 1; `shards` make up a GPU."""

    shards: int
    requests: tuple[Request, ...] = ()
    weights: tuple[float, ...] = ()


def typical(counts: Mapping[Request, float], shards: int, cover: float = COVER) -> Typical:
    """The most frequent requests that together make up the share `cover` of all."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0].order()))
    wanted = cover * sum(count for _, count in ranked)
    chosen: list[tuple[Request, float]] = []
    reached = 0.0
    for request, count in ranked:
        if reached >= wanted:
            break
        chosen.append((request, count))
        reached += count
    return Typical(
        shards,
        tuple(request for request, _ in chosen),
        tuple(count / reached for _, count in chosen),
    )


def expected_use(among: Typical) -> Floats:
    """For gaps of 0 to `shards` shards, what each typical request would use of it on average.

    A row per request, zero for those that want no GPU or several. The sum of the rows is V.
    """
    sizes = [_size(request, among.shards) for request in among.requests]
    parts = np.zeros((len(sizes), among.shards + 1))
    total = np.zeros(among.shards + 1)
    for gap in range(1, among.shards + 1):
        fitting = [row for row, size in enumerate(sizes) if 0 < size <= gap]
        weight = sum(among.weights[row] for row in fitting)
        for row in fitting:
            used = sizes[row] + total[gap - sizes[row]]
            parts[row, gap] = among.weights[row] * used / weight
        total[gap] = parts[:, gap].sum()
    return parts


def _size(request: Request, shards: int) -> int:
    """Shards of the only GPU it wants; 0 when it wants none or several."""
    if request.gpus > 1:
        return 0
    return request.shards or request.gpus * shards


class Demand:
    """Typical requests as arrays. Its table says what a GPU of a model with a gap is to each.

    Columns of a row of the table: what each of the `singles` would use, how many of each would go
    in, and, for each of the gangs that want several GPUs, whether this is a whole free one.
    """

    def __init__(self, among: Typical, models: tuple[str, ...]) -> None:
        uses = expected_use(among)
        singles = [i for i, r in enumerate(among.requests) if _size(r, among.shards)]
        gangs = [i for i, r in enumerate(among.requests) if r.gpus > 1]
        requests = [among.requests[i] for i in singles + gangs]
        self.singles = len(singles)
        self.cpus = np.array([r.cpus for r in requests], dtype=np.float64)
        self.memory = np.array([r.memory for r in requests], dtype=np.float64)
        self.gang_sizes = np.array([among.requests[i].gpus for i in gangs], dtype=np.float64)
        self.gang_weights = self.gang_sizes * np.array([among.weights[i] for i in gangs])
        gaps = np.arange(among.shards + 1)
        columns = [uses[i] for i in singles]
        columns += [gaps // _size(among.requests[i], among.shards) for i in singles]
        columns += [gaps == among.shards for _ in gangs]
        asked = [among.requests[i] for i in singles + singles + gangs]
        self.table = np.zeros(((len(models) + 1) * len(gaps), len(asked)))
        """By model, then by free shards; the last model is that of GPUs that are not there."""
        for column, (request, values) in enumerate(zip(asked, columns, strict=True)):
            for row, model in enumerate(models):
                if not request.models or model in request.models:
                    start = row * len(gaps)
                    self.table[start : start + len(gaps), column] = values

    def worth(self, sums: Floats, cpus: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Of nodes: the shards that single requests would use, and the GPUs that gangs could have.

        `sums` are rows of the table added up over each node's GPUs. How often a gang comes counts.
        """
        n = self.singles
        afford = np.minimum(_times(cpus, self.cpus), _times(memory, self.memory))
        uses, copies, whole = sums[:, :n], sums[:, n : 2 * n], sums[:, 2 * n :]
        part = np.minimum(afford[:, :n], copies) / np.maximum(copies, 1.0)
        gangs = np.minimum(afford[:, n:], whole // self.gang_sizes)
        return (uses * part).sum(axis=1), (gangs * self.gang_weights).sum(axis=1)


@lru_cache(maxsize=4)
def demand(among: Typical, models: tuple[str, ...]) -> Demand:
    """Kept, as what is typical changes far less often than what is free."""
    return Demand(among, models)


def _times(have: Floats, each: Floats) -> Floats:
    """How many times `each` goes into what the nodes have; endless times when it is nothing."""
    return np.asarray((have[:, None] + 1e-6) // np.maximum(each, 1e-12))
