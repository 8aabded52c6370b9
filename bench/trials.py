"""What `bench/traces.py` tries: which policies over which public workloads, and what others got."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.scheduler.simulate.policies import NAMED, BestEffort, Known, SimPolicy, Walls
from jobs.scheduler.simulate.traces import Cluster, Format, Window, moment

DAY_S = 86_400
TRACES = Path(
    os.environ.get("CARREL_TRACES", Path(__file__).resolve().parents[2] / "shared" / "traces")
)
"""Where the files of public workloads lie, if nobody says otherwise."""


@dataclass(frozen=True)
class Trial:
    """One line of the report."""

    policy: SimPolicy
    published_s: float | None = None
    """The mean waiting time that others measured."""

    @property
    def label(self) -> str:
        """Says in what it differs from others of the same policy."""
        return ", ".join([self.policy.name, *self._differences()])

    def _differences(self) -> Iterator[str]:
        policy = self.policy
        yield policy.walls
        usual = NAMED[policy.name].lengths if policy.name in NAMED else Known.TRUE
        if policy.lengths is not Known.TRUE or usual is not Known.TRUE:
            yield policy.lengths
        if policy.best_effort is not BestEffort.NONE:
            yield f"{policy.best_effort} best-effort"
        if not policy.checkpoints:
            yield "no checkpoints"


def trial(
    name: str, published_s: float | None = None, walls: Walls = Walls.HARD,
    lengths: Known | None = None, **more: object,
) -> Trial:  # fmt: skip
    """A named policy, and in what it is to differ."""
    policy = NAMED[name]
    own = {"walls": walls, "lengths": lengths or policy.lengths, **more}
    return Trial(replace(policy, **own), published_s)


@dataclass(frozen=True)
class Source:
    """A workload, and what is to be tried with it."""

    name: str
    jobs: str
    nodes: str
    """A file, or how many there are."""
    trials: tuple[Trial, ...]
    window: Window | None = None
    form: Format | None = None


PREEMPTING = (
    trial("carrel", best_effort=BestEffort.JOBS),
    trial("carrel-yielding", best_effort=BestEffort.JOBS),
    trial("carrel-yielding", best_effort=BestEffort.USERS),
    trial("carrel-yielding", best_effort=BestEffort.JOBS, checkpoints=False),
)
"""Half of the work is best-effort, by a hash, and gives way to the other half."""

TOLD = (
    trial("carrel", lengths=Known.TRUE),
    trial("carrel-shortest", lengths=Known.TRUE),
)
"""Told in advance how long jobs run, as the published `sjf`, `qssf` and `easy` are."""

REQUESTED = (
    trial("carrel-default", lengths=Known.REQUESTED),
    trial("carrel", lengths=Known.REQUESTED),
    trial("carrel", lengths=Known.WITHIN),
    trial("carrel-fair", lengths=Known.WITHIN),
)
"""Where users asked for a time: by that alone, and with prediction."""

WORKLOADS = (
    Source(
        "venus-september", "venus_sept_public_8vc.csv.gz", "venus_sept_public_8vc_nodes.csv",
        (
            trial("fifo", 65_474.7), trial("sjf", 10_856.4), trial("qssf", 4_002.2),
            trial("skip", 3_699.7), trial("easy", 2_089.5),
            trial("fifo", 3_339.2, Walls.POOL), trial("easy", 248.8, Walls.POOL),
            trial("carrel-default"), trial("carrel"), trial("carrel", walls=Walls.LENT),
            *TOLD, *PREEMPTING,
        ),
    ),
    Source(
        "venus-july", "venus_2020-04_to_07.csv.gz", "88",
        (
            trial("fifo", 6_361.4), trial("sjf", 877.7), trial("easy", 985.6),
            trial("carrel-default"), trial("carrel"),
        ),
        Window(91 * DAY_S, 122 * DAY_S),
    ),
    Source(
        "philly-october", "philly_2017-09_to_10.csv.gz", "philly_oct_tight_vc_nodes.csv",
        (
            trial("fifo", 66_513.9), trial("sjf", 16_297.2), trial("easy", 32_726.0),
            trial("fifo", 463.0, Walls.POOL), trial("easy", 255.1, Walls.POOL),
            trial("carrel-default"), trial("carrel"), trial("carrel", walls=Walls.LENT),
            *TOLD,
        ),
        Window(moment("2017-10-01", Format.PHILLY), moment("2017-11-01", Format.PHILLY)),
    ),
    Source(
        # Local months: its clock begins 295 s after midnight.
        "ricc-june", "ricc_2010-05_to_07.csv.gz", "1024",
        (trial("fifo", 112_739.0), trial("easy", 32_382.0, lengths=Known.REQUESTED), *REQUESTED),
        Window(31 * DAY_S - 295, 61 * DAY_S - 295),
    ),
)  # fmt: skip


def usual_trials(form: Format, cluster: Cluster) -> tuple[Trial, ...]:
    """The same for files that are not known here."""
    if form is Format.RICC:
        return (trial("fifo"), trial("easy", lengths=Known.REQUESTED), *REQUESTED)
    hard = tuple(map(trial, ("fifo", "sjf", "qssf", "skip", "easy", "carrel-default", "carrel")))
    if len(cluster.nodes) == 1:
        return (*hard, *TOLD, *PREEMPTING)
    pool = (trial("fifo", walls=Walls.POOL), trial("easy", walls=Walls.POOL))
    return (*hard, *pool, trial("carrel", walls=Walls.LENT), *TOLD, *PREEMPTING)
