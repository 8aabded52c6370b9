"""Where a request leaves the most that later ones can use: GPUs, shards of GPUs, CPUs and memory.

A request goes where what is left loses the least of its worth (`typical.py`). Differences below
`SLACK` of a GPU decide nothing: then it goes where gangs, the requests for several GPUs of a node,
lose the least. Then shards go where they break no whole GPU, and whole GPUs where the fewest are
free; and then it is the first node by name.

Nodes that have the same left are in one state, and a request is tried on each state once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.scheduler.fit import name_key
from jobs.scheduler.typical import Floats, Ints, Request, Typical, demand

Bools = NDArray[np.bool_]

SLACK = 0.075
"""Of a GPU: by how much two nodes may differ and still be equally good."""
_NEVER = float("-inf")
_DECIMALS = 9
"""Equal sums, added up in another order, must compare as equal."""
_BROKEN = 10.0**-_DECIMALS / 2
"""What breaking a whole GPU counts against places for gangs: less than any of them."""


@dataclass(frozen=True)
class Vacancy:
    """What is left of one node. `gpus`: kind and free shards of each GPU, by its index."""

    name: str
    cpus: int
    memory: int
    gpus: tuple[tuple[str, int], ...] = ()


class _States:
    """What nodes may have left, each met state once, as arrays that grow."""

    def __init__(self, among: Typical, shards: Mapping[str, int], width: int) -> None:
        models = tuple(sorted(shards))
        sizes = [shards[model] for model in models]
        self._models = {model: row for row, model in enumerate(models)}
        self._whole = np.array([*sizes, -1])
        """Free shards of a GPU that nobody has anything of, by model; the last has none."""
        self._start = np.cumsum([0, *(size + 1 for size in sizes)])
        """Where the model begins in the table."""
        self._known: dict[tuple[object, ...], int] = {}
        self._cpus, self._memory = np.zeros(0), np.zeros(0)
        self._worth, self._gangs = np.zeros(0), np.zeros(0)
        self.expect(among)
        self._free = np.zeros((0, width), dtype=np.int64)
        self._model = np.zeros((0, width), dtype=np.int64)
        self._first = np.zeros((0, width), dtype=np.bool_)
        """Not free for just as much as a GPU of the same model before it."""

    def __len__(self) -> int:
        return len(self._known)

    def expect(self, among: Typical) -> None:
        """Something else is typical now."""
        sizes = tuple(int(size) for size in self._whole[:-1])
        self._demand = demand(among, sizes, tuple(self._models))
        self._table = self._demand.table
        self._worth = np.full(len(self._worth), np.nan)

    def number(self, node: Vacancy) -> int:
        """That of the state the node is in."""
        key = (node.cpus, node.memory, node.gpus)
        state = self._known.get(key)
        if state is None:
            state = self._known[key] = len(self._known)
            if state == len(self._cpus):
                self._grow()
            self._set(state, node)
        return state

    def _grow(self) -> None:
        more = max(64, len(self._cpus))
        self._cpus, self._memory = extended(self._cpus, more), extended(self._memory, more)
        self._worth = extended(self._worth, more, np.nan)
        self._gangs = extended(self._gangs, more)
        self._free = np.vstack([self._free, np.zeros((more, self._free.shape[1]), dtype=np.int64)])
        nothing = np.full((more, self._model.shape[1]), len(self._models), dtype=np.int64)
        self._model = np.vstack([self._model, nothing])
        self._first = np.vstack([self._first, np.zeros_like(nothing, dtype=np.bool_)])

    def _set(self, state: int, node: Vacancy) -> None:
        self._cpus[state], self._memory[state] = node.cpus, node.memory
        seen = set()
        for index, gpu in enumerate(node.gpus):
            self._model[state, index] = self._models[gpu[0]]
            self._free[state, index] = gpu[1]
            self._first[state, index] = gpu not in seen
            seen.add(gpu)

    def _sums(self, states: Ints) -> Floats:
        return np.asarray(self._table[self._at(states)].sum(axis=1))

    def _at(self, states: Ints) -> Ints:
        """The rows of the table for their GPUs."""
        return np.asarray(self._start[self._model[states]] + self._free[states])

    def _is_whole(self, states: Ints) -> Bools:
        return np.asarray(self._free[states] == self._whole[self._model[states]])

    def _measure(self, states: Ints) -> None:
        """Find the worth of those of them of which it is not known."""
        new = states[np.isnan(self._worth[states])]
        if len(new):
            self._worth[new], self._gangs[new] = self._demand.worth(
                self._sums(new), self._cpus[new], self._memory[new]
            )

    def tried(self, states: Ints, request: Request) -> tuple[Ints, Ints, Floats, Floats]:
        """The request on each of these states, best way last: state, GPU, gain, what gangs keep."""
        self._measure(states)
        fits = (self._cpus[states] >= request.cpus) & (self._memory[states] >= request.memory)
        states, gpu, sums = self._options(states[fits], request)
        worth, gangs = self._demand.worth(
            sums, self._cpus[states] - request.cpus, self._memory[states] - request.memory
        )
        gains = np.round(worth - self._worth[states], _DECIMALS)
        kept = np.round(gangs - self._gangs[states], _DECIMALS)
        order = np.lexsort((-gpu, gains))
        if request.shards:
            free = self._free[states, gpu]
            whole = free == self._whole[self._model[states, gpu]]
            kept -= whole * _BROKEN
            order = np.lexsort((-gpu, -free, gains - whole * SLACK))
        return states[order], gpu[order], gains[order], kept[order]

    def _options(self, states: Ints, request: Request) -> tuple[Ints, Ints, Floats]:
        """All ways to place it: the state, the GPU if it wants shards, the sums after it."""
        if request.shards:
            return self._shared(states, request)
        if request.gpus:
            chosen = self.whole(states, request)
            fits = chosen.sum(axis=1) == request.gpus
            states, chosen = states[fits], chosen[fits]
            left = np.where(chosen[:, :, None], 0.0, self._table[self._at(states)]).sum(axis=1)
            return states, np.zeros_like(states), left
        return states, np.zeros_like(states), self._sums(states)

    def _shared(self, states: Ints, request: Request) -> tuple[Ints, Ints, Floats]:
        fits = (self._free[states] >= request.shards) & self._first[states]
        if request.models:
            fits &= self._suits(states, request)
        sums = self._sums(states)
        place, gpu = np.nonzero(fits)
        owner = states[place]
        at = self._start[self._model[owner, gpu]] + self._free[owner, gpu]
        return owner, gpu, sums[place] + self._table[at - request.shards] - self._table[at]

    def unbroken(self, states: Ints) -> Ints:
        """How many GPUs there are of which nobody has anything."""
        return np.asarray(self._is_whole(states).sum(axis=1))

    def whole(self, states: Ints, request: Request) -> Bools:
        """The first free GPUs of each state, as many as are wanted if there are as many."""
        fits = self._is_whole(states)
        if request.models:
            fits &= self._suits(states, request)
        return np.asarray(fits & (fits.cumsum(axis=1) <= request.gpus))

    def _suits(self, states: Ints, request: Request) -> Bools:
        good = np.array([model in request.models for model in self._models] + [False])
        return np.asarray(good[self._model[states]])


class _Trial:
    """What a request would do to each state: NaN while unknown, `-inf` where it does not fit."""

    __slots__ = ("gains", "gpu", "kept")

    def __init__(self) -> None:
        self.gains, self.kept, self.gpu = np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)

    def reach(self, size: int) -> None:
        """There are so many states now."""
        more = size - len(self.gains)
        if more > 0:
            more = max(more, len(self.gains))
            self.gains = extended(self.gains, more, np.nan)
            self.kept = extended(self.kept, more)
            self.gpu = np.concatenate([self.gpu, np.zeros(more, dtype=np.int64)])


class Fragmentation:
    """Nodes in the order of their names with what is left of them; scores requests on them.

    `shards`: into how many each kind of GPU is divided. It remembers every state that a node
    was in.
    """

    def __init__(self, nodes: Iterable[Vacancy], among: Typical, shards: Mapping[str, int]) -> None:
        known = sorted(nodes, key=lambda node: (name_key(node.name), node.name))
        self.names = tuple(node.name for node in known)
        self._index = {name: row for row, name in enumerate(self.names)}
        width = max((len(node.gpus) for node in known), default=0)
        self._states = _States(among, shards, width)
        self._state = np.array([self._states.number(node) for node in known], dtype=np.int64)
        self._trials: dict[Request, _Trial] = {}
        self._among = among

    def expect(self, among: Typical) -> None:
        """Something else is typical now: what was found out about requests holds no more."""
        if among != self._among:
            self._among = among
            self._states.expect(among)
            self._trials.clear()

    def update(self, node: Vacancy) -> None:
        """This is left of the node now: no other is looked at again."""
        self._state[self._index[node.name]] = self._states.number(node)

    def scores(self, request: Request) -> Floats:
        """What each node gains by the request, in GPUs: hardly ever above 0, more is better.

        In the order of `names`; `-inf` where the request does not fit.
        """
        trial = self._trials.get(request)
        if trial is None:
            trial = self._trials[request] = _Trial()
        trial.reach(len(self._states))
        gains = trial.gains[self._state]
        unknown = np.isnan(gains)
        if unknown.any():
            new = np.unique(self._state[unknown])
            trial.gains[new] = _NEVER
            states, gpu, better, kept = self._states.tried(new, request)
            # Of several ways to place it in one state the last one written stays: the best.
            trial.gains[states], trial.kept[states], trial.gpu[states] = better, kept, gpu
            gains = trial.gains[self._state]
        return gains

    def choose(
        self, request: Request, allowed: Bools | None = None
    ) -> tuple[str, tuple[int, ...]] | None:
        """The node to take and the indices of its GPUs; None when the request fits nowhere.

        `allowed` says which nodes may be taken at all, in the order of `names`.
        """
        gains, trial = self.scores(request), self._trials[request]
        if allowed is not None:
            gains[~allowed] = _NEVER
        best = gains.max(initial=_NEVER)
        if best == _NEVER:
            return None
        near = np.flatnonzero(gains >= best - SLACK)
        kept = trial.kept[self._state[near]]
        near = near[kept == kept.max()]
        row = near[0 if request.shards else self._states.unbroken(self._state[near]).argmin()]
        state = self._state[row]
        if request.shards:
            return self.names[row], (int(trial.gpu[state]),)
        whole = self._states.whole(np.array([state]), request)[0]
        return self.names[row], tuple(int(index) for index in np.flatnonzero(whole))


def extended(array: Floats, more: int, value: float = 0.0) -> Floats:
    """The same with so many more at its end."""
    return np.concatenate([array, np.full(more, value)])
