"""What requests are like here, and what the rest of a node is worth to such requests.

What a node still has is worth what typical requests would use of it. A gap of `h` of a GPU,
offered to requests as often as they come and taken by each that fits, ends up used by

    V(h) = sum of w(t) (t + V(h - t)) / sum of w(t),   over the typical requests of t <= h

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

from collections.abc import Mapping, Sequence
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
    """The kinds of GPU that will do; empty when any will."""

    def order(self) -> tuple[object, ...]:
        """Sorts requests, whatever the order they came in."""
        return (self.gpus, self.shards, self.cpus, self.memory, sorted(self.models))


@dataclass(frozen=True)
class Typical:
    """The requests to keep room for, with weights that add up to 1."""

    requests: tuple[Request, ...] = ()
    weights: tuple[float, ...] = ()


def typical(counts: Mapping[Request, float], cover: float = COVER) -> Typical:
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
        tuple(request for request, _ in chosen),
        tuple(count / reached for _, count in chosen),
    )


def expected_use(among: Typical, shards: int) -> Floats:
    """Of a GPU of so many shards, for gaps of 0 to all of them: what each typical request would
    use of it on average, in GPUs.

    A row per request, zero for those that want no GPU or several. The sum of the rows is V.
    """
    sizes = [_size(request, shards) for request in among.requests]
    uses = np.zeros((len(sizes), shards + 1))
    total = np.zeros(shards + 1)
    for gap in range(1, shards + 1):
        fitting = [row for row, size in enumerate(sizes) if 0 < size <= gap]
        weight = sum(among.weights[row] for row in fitting)
        for row in fitting:
            used = sizes[row] / shards + total[gap - sizes[row]]
            uses[row, gap] = among.weights[row] * used / weight
        total[gap] = uses[:, gap].sum()
    return uses


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

    def __init__(self, among: Typical, shards: tuple[int, ...], models: tuple[str, ...]) -> None:
        singles = [r for r in among.requests if r.gpus == 1 or r.shards]
        gangs = [r for r in among.requests if r.gpus > 1]
        weight = dict(zip(among.requests, among.weights, strict=True))
        self.singles = len(singles)
        self.cpus = np.array([r.cpus for r in singles + gangs], dtype=np.float64)
        self.memory = np.array([r.memory for r in singles + gangs], dtype=np.float64)
        self.gang_sizes = np.array([r.gpus for r in gangs], dtype=np.float64)
        self.gang_weights = self.gang_sizes * np.array([weight[r] for r in gangs])
        asked = singles + singles + gangs
        suits = np.array([[not r.models or model in r.models for r in asked] for model in models])
        gains = {size: _columns(among, singles, gangs, size) for size in set(shards)}
        rows = [gains[size] * good for size, good in zip(shards, suits, strict=True)]
        self.table = np.vstack([*rows, np.zeros((1, len(asked)))])
        """By model, then by free shards; the last row is for GPUs that are not there."""

    def worth(self, sums: Floats, cpus: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Of nodes: the GPUs that single requests would use, and those that gangs could have.

        `sums` are rows of the table added up over each node's GPUs. How often a gang comes counts.
        """
        n = self.singles
        afford = np.minimum(_times(cpus, self.cpus), _times(memory, self.memory))
        uses, copies, whole = sums[:, :n], sums[:, n : 2 * n], sums[:, 2 * n :]
        part = np.minimum(afford[:, :n], copies) / np.maximum(copies, 1.0)
        gangs = np.minimum(afford[:, n:], whole // self.gang_sizes)
        return (uses * part).sum(axis=1), (gangs * self.gang_weights).sum(axis=1)


def _columns(
    among: Typical, singles: Sequence[Request], gangs: Sequence[Request], shards: int
) -> Floats:
    """The part of the table for a model that suits all, by free shards."""
    uses = dict(zip(among.requests, expected_use(among, shards), strict=True))
    gaps = np.arange(shards + 1)
    columns = [uses[request] for request in singles]
    columns += [gaps // _size(request, shards) for request in singles]
    columns += [gaps == shards for _ in gangs]
    return np.array(columns, dtype=np.float64).reshape(-1, shards + 1).T


@lru_cache(maxsize=4)
def demand(among: Typical, shards: tuple[int, ...], models: tuple[str, ...]) -> Demand:
    """Kept, as what is typical changes far less often than what is free."""
    return Demand(among, shards, models)


def _times(have: Floats, each: Floats) -> Floats:
    """How many times `each` goes into what the nodes have; endless times when it is nothing."""
    return np.asarray((have[:, None] + 1e-6) // np.maximum(each, 1e-12))
