"""EASY backfill on RICC, written apart from Carrel's scheduler: what its mean wait depends on.

    .venv/bin/python bench/easy.py [--traces FOLDER] [--json FILE]

The published simulation of these jobs, which this repeats, lets only the first 1,000 of those who
wait pass, and fills whole nodes with a gang and puts the remainder on one more. Carrel lets anybody
pass and takes the same number from each node. What comes of that is printed here;
`bench/traces.py ricc-june` has the same by Carrel's own simulator.
"""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import traces
from bench.trials import TRACES, WORKLOADS

SIZE = 8
"""Processors of a node."""

Part = tuple[int, int, range]
"""Processors of each node, how many nodes, and where they are looked for first: by how many
processors of a node are free."""
Split = Callable[[int], Sequence[Part]]
Taken = list[tuple[int, int]]
"""Nodes, and how many processors of each."""


def whole(procs: int) -> Sequence[Part]:
    """A gang has whole nodes, and its remainder is on the emptiest node."""
    if procs <= SIZE:
        return [(procs, 1, range(procs, SIZE + 1))]
    full, rest = divmod(procs, SIZE)
    parts = [(SIZE, full, range(SIZE, SIZE + 1))]
    return [*parts, (rest, 1, range(SIZE, rest - 1, -1))] if rest else parts


def even(procs: int) -> Sequence[Part]:
    """A gang has the same number of processors on each of its nodes."""
    nodes = -(-procs // SIZE)
    each = -(-procs // nodes)
    return [(each, nodes, range(each, SIZE + 1))]


@dataclass(frozen=True)
class Job:
    """In seconds; `told_s` is how long the scheduler takes it to run, which may be wrong."""

    submit_s: int
    run_s: int
    procs: int
    told_s: int


class Nodes:
    """What is free of each. Of equal nodes the one with the lowest number is taken."""

    def __init__(self, free: Sequence[int]) -> None:
        self._free = list(free)
        self._with = [0] * (SIZE + 1)
        """The nodes that have so many free, as bits."""
        for node, number in enumerate(free):
            self._with[number] |= 1 << node

    def copy(self) -> Nodes:
        return Nodes(self._free)

    def fits(self, parts: Sequence[Part]) -> bool:
        wanted = 0
        for _, nodes, levels in parts:
            wanted += nodes
            if sum(self._with[level].bit_count() for level in levels) < wanted:
                return False
        return True

    def take(self, parts: Sequence[Part]) -> Taken:
        """The caller knows that it fits."""
        taken: Taken = []
        for procs, nodes, levels in parts:
            for level in levels:
                while nodes and self._with[level]:
                    found = self._with[level]
                    node = (found & -found).bit_length() - 1
                    self._move(node, -procs)
                    taken.append((node, procs))
                    nodes -= 1
        return taken

    def give(self, taken: Taken, sign: int = 1) -> None:
        """Back; or, with a negative sign, take just that."""
        for node, procs in taken:
            self._move(node, sign * procs)

    def _move(self, node: int, more: int) -> None:
        self._with[self._free[node]] ^= 1 << node
        self._free[node] += more
        self._with[self._free[node]] ^= 1 << node


class Easy:
    """First come, first served. Behind the first that does not fit others start, of the next
    `depth` ones, that do not delay it: by then they are gone, or it fits beside them."""

    def __init__(self, jobs: Sequence[Job], nodes: int, split: Split, depth: int | None) -> None:
        self.starts: list[int] = [-1] * len(jobs)
        self._jobs, self._depth = jobs, depth or len(jobs)
        self._nodes = Nodes([SIZE] * nodes)
        self._parts = [split(job.procs) for job in jobs]
        self._queue: list[int] = []
        self._ends: list[tuple[int, int]] = []
        self._told: list[tuple[int, int]] = []
        """When those that run are said to end, the first first."""
        self._where: dict[int, Taken] = {}

    def play(self) -> list[int]:
        """When each starts. `jobs` come in their order."""
        coming = 0
        while coming < len(self._jobs) or self._ends:
            times = [end for end, _ in self._ends[:1]]
            times += [job.submit_s for job in self._jobs[coming : coming + 1]]
            now = min(times)
            while self._ends and self._ends[0][0] <= now:
                self._end(heappop(self._ends)[1])
            while coming < len(self._jobs) and self._jobs[coming].submit_s <= now:
                self._queue.append(coming)
                coming += 1
            self._serve(now)
        return self.starts

    def _end(self, at: int) -> None:
        self._nodes.give(self._where.pop(at))
        told = self.starts[at] + self._jobs[at].told_s, at
        del self._told[bisect_left(self._told, told)]

    def _begin(self, at: int, taken: Taken, now: int) -> None:
        self.starts[at] = now
        self._where[at] = taken
        heappush(self._ends, (now + self._jobs[at].run_s, at))
        insort(self._told, (now + self._jobs[at].told_s, at))

    def _serve(self, now: int) -> None:
        served = 0
        for at in self._queue:
            if not self._nodes.fits(self._parts[at]):
                break
            self._begin(at, self._nodes.take(self._parts[at]), now)
            served += 1
        del self._queue[:served]
        behind = self._queue[1 : self._depth + 1]
        fitting = self._fitting(behind)
        if fitting:
            passing = set(self._pass(behind, fitting, now))
            self._queue = [at for at in self._queue if at not in passing]

    def _fitting(self, waiting: Sequence[int]) -> set[int]:
        """The sizes of those who would fit now."""
        sizes = {self._jobs[at].procs: self._parts[at] for at in waiting}
        return {procs for procs, parts in sizes.items() if self._nodes.fits(parts)}

    def _pass(self, behind: Sequence[int], fitting: set[int], now: int) -> Iterator[int]:
        first = self._parts[self._queue[0]]
        promised, then = self._promise(first, now)
        too_long: set[int] = set()
        """The sizes of which those who stay would delay the first; they still would later on."""
        for at in behind:
            job, parts = self._jobs[at], self._parts[at]
            stays = now + job.told_s > promised
            if job.procs not in fitting or (stays and job.procs in too_long):
                continue
            taken = self._nodes.take(parts)
            if stays:
                then.give(taken, -1)
                if not then.fits(first):
                    then.give(taken)
                    self._nodes.give(taken)
                    too_long.add(job.procs)
                    continue
            self._begin(at, taken, now)
            yield at
            fitting &= self._fitting(behind)
            too_long.clear()

    def _promise(self, first: Sequence[Part], now: int) -> tuple[int, Nodes]:
        """When the first will fit by what is told, and what is free then. Whoever should have
        ended is taken to do so within a second."""
        then, moment = self._nodes.copy(), now
        for told, at in self._told:
            end = max(told, now + 1)
            if end > moment and then.fits(first):
                break
            moment = end
            then.give(self._where[at])
        return moment, then


@dataclass(frozen=True)
class Variant:
    """`depth`: how many may pass; None: all. `told`: what the scheduler knows."""

    told: str
    gangs: str
    depth: int | None
    published_s: float | None = None

    @property
    def label(self) -> str:
        depth = "all" if self.depth is None else f"{self.depth:,}"
        return f"{self.told:9}  {self.gangs:5}  {depth:>6}"


VARIANTS = (
    Variant("true", "whole", 1000, 38_659.0),
    Variant("requested", "whole", 1000, 32_382.0),
    Variant("requested", "whole", 999),
    Variant("requested", "whole", 1001),
    Variant("requested", "whole", None),
    Variant("requested", "even", None),
    Variant("true", "even", None),
)


def mean_wait(variant: Variant, jobs: Sequence[Job], nodes: int) -> float:
    """In seconds."""
    split = whole if variant.gangs == "whole" else even
    starts = Easy(jobs, nodes, split, variant.depth).play()
    return fmean(start - job.submit_s for start, job in zip(starts, jobs, strict=True))


def load(folder: Path) -> tuple[dict[str, list[Job]], int]:
    """The jobs of June by what is told of them, and the nodes. Raises `TableError`."""
    ricc = next(source for source in WORKLOADS if source.name == "ricc-june")
    loaded = traces.load(ricc, folder)
    kept = loaded.kept.jobs
    told = {
        "requested": [
            Job(int(job.submit_s), job.run_s, job.gpus, job.request_s or 0) for job in kept
        ],
        "true": [Job(int(job.submit_s), job.run_s, job.gpus, job.run_s) for job in kept],
    }
    return told, loaded.cluster.total


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, metavar="FOLDER", default=TRACES)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    asked = parser.parse_args()
    try:
        told, nodes = load(asked.traces)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print("run times  gangs    pass  mean wait s   published", flush=True)
    found = []
    with ProcessPoolExecutor(2) as workers:
        under_way = [
            (one, workers.submit(mean_wait, one, told[one.told], nodes)) for one in VARIANTS
        ]
        for one, future in under_way:
            wait_s = future.result()
            published = f"{one.published_s:12,.0f}" if one.published_s else ""
            print(f"{one.label}  {wait_s:11,.2f}{published}", flush=True)
            found.append(asdict(one) | {"mean_wait_s": wait_s})
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
