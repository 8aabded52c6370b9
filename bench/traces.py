"""Carrel's scheduler over public workloads, beside what others reached on the same files.

    .venv/bin/python bench/traces.py [WORKLOAD...] [--traces FOLDER] [--json FILE]
    .venv/bin/python bench/traces.py --jobs FILE --nodes FILE [--format venus|philly|ricc] ...

Without a workload's name all are played. The files are not part of Carrel: FOLDER is where they
lie (`CARREL_TRACES`, or ../shared/traces beside the checkout), under the names in `WORKLOADS`.

For each policy a line; where others published a mean waiting time for the same policy on the same
files, it is beside ours, with how far the two are apart. `docs/simulate.md` explains the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jobs.scheduler.simulate.measure import Figures, figures
from jobs.scheduler.simulate.policies import (
    NAMED,
    Known,
    PolicyError,
    SimPolicy,
    Walls,
    find_policy,
)
from jobs.scheduler.simulate.run import Simulation
from jobs.scheduler.simulate.scenario import workload
from jobs.scheduler.simulate.tables import TableError
from jobs.scheduler.simulate.tell import as_json, table
from jobs.scheduler.simulate.traces import (
    Cluster,
    Format,
    Kept,
    Window,
    format_of,
    keep_possible,
    moment,
    read_cluster,
    read_jobs,
)
from jobs.scheduler.simulate.workload import GPUS_PER_NODE

ROOT = Path(__file__).resolve().parent.parent
DAY_S = 86_400
PROCESSES = 2


@dataclass(frozen=True)
class Trial:
    """One line of the report."""

    policy: SimPolicy
    published_s: float | None = None
    """The mean waiting time that others measured."""

    @property
    def label(self) -> str:
        told = "" if self.policy.lengths is Known.TRUE else f", {self.policy.lengths}"
        return f"{self.policy.name}, {self.policy.walls}{told}"


def _trial(
    name: str, published_s: float | None = None, walls: Walls = Walls.HARD,
    lengths: Known | None = None,
) -> Trial:  # fmt: skip
    policy = NAMED[name]
    return Trial(replace(policy, walls=walls, lengths=lengths or policy.lengths), published_s)


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


WORKLOADS = (
    Source(
        "venus-september", "venus_sept_public_8vc.csv.gz", "venus_sept_public_8vc_nodes.csv",
        (
            _trial("fifo", 65_474.7), _trial("sjf", 10_856.4), _trial("qssf", 4_002.2),
            _trial("skip", 3_699.7), _trial("easy", 2_089.5),
            _trial("fifo", 3_339.2, Walls.POOL), _trial("easy", 248.8, Walls.POOL),
            _trial("carrel"), _trial("carrel", walls=Walls.LENT),
        ),
    ),
    Source(
        "venus-july", "venus_2020-04_to_07.csv.gz", "88",
        (
            _trial("fifo", 6_361.4), _trial("sjf", 877.7), _trial("easy", 985.6),
            _trial("carrel"),
        ),
        Window(91 * DAY_S, 122 * DAY_S),
    ),
    Source(
        "philly-october", "philly_2017-09_to_10.csv.gz", "philly_oct_tight_vc_nodes.csv",
        (
            _trial("fifo", 66_513.9), _trial("sjf", 16_297.2), _trial("easy", 32_726.0),
            _trial("fifo", 463.0, Walls.POOL), _trial("easy", 255.1, Walls.POOL),
            _trial("carrel"), _trial("carrel", walls=Walls.LENT),
        ),
        Window(moment("2017-10-01", Format.PHILLY), moment("2017-11-01", Format.PHILLY)),
    ),
    Source(
        # Local months: its clock begins 295 s after midnight.
        "ricc-june", "ricc_2010-05_to_07.csv.gz", "1024",
        (
            _trial("fifo", 112_739.0),
            _trial("easy", 32_382.0, lengths=Known.GRANTED),
            _trial("carrel", lengths=Known.WITHIN),
        ),
        Window(31 * DAY_S - 295, 61 * DAY_S - 295),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Loaded:
    """A workload that has been read."""

    name: str
    kept: Kept
    cluster: Cluster
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Played:
    """What came of one trial."""

    trial: Trial
    figures: Figures
    took_s: float
    """Of one processor."""


def load(source: Source, folder: Path) -> Loaded:
    """Raises `TableError`."""
    cluster = (
        Cluster({"": int(source.nodes)})
        if source.nodes.isdecimal()
        else read_cluster(folder / source.nodes)
    )
    jobs = read_jobs(folder / source.jobs, source.form, source.window)
    return Loaded(source.name, keep_possible(jobs, cluster, GPUS_PER_NODE), cluster, source.trials)


def play(loaded: Loaded, trial: Trial) -> Played:
    """Raises `PolicyError` where the workload does not tell what the policy needs to know."""
    began = time.process_time()
    simulation = Simulation(
        workload(loaded.name, loaded.kept.jobs, loaded.cluster, trial.policy),
        trial.policy.policy,
        trial.policy.start_lengths(),
        time.perf_counter,
    )
    simulation.play()
    return Played(trial, figures(simulation), time.process_time() - began)


def usual_trials(form: Format, cluster: Cluster) -> tuple[Trial, ...]:
    """Those for files that are not known here."""
    if form is Format.RICC:
        return (
            _trial("fifo"),
            _trial("easy", lengths=Known.GRANTED),
            _trial("carrel", lengths=Known.WITHIN),
        )
    hard = tuple(map(_trial, ("fifo", "sjf", "easy", "carrel")))
    if len(cluster.nodes) == 1:
        return hard
    pool = (_trial("fifo", walls=Walls.POOL), _trial("easy", walls=Walls.POOL))
    return (*hard, *pool, _trial("carrel", walls=Walls.LENT))


def say(loaded: Loaded, played: list[Played]) -> None:
    """The table of one workload."""
    print(f"\n{loaded.name}: {len(loaded.kept.jobs):,} jobs on {loaded.cluster.total:,} nodes")
    for sentence in loaded.kept.left_out:
        print(f"  left out: {sentence}")
    print(table([(one.trial.label, one.figures) for one in played]))
    for one in played:
        if one.trial.published_s is not None:
            ours, theirs = one.figures.mean_wait_s, one.trial.published_s
            print(
                f"  {one.trial.label}: mean wait {ours:,.1f} s, published {theirs:,.1f} s "
                f"({ours / theirs - 1:+.1%})"
            )
    took = ", ".join(f"{one.trial.label} {one.took_s:,.0f} s" for one in played)
    print(f"  simulated in: {took}", flush=True)


def _json(played: list[Played]) -> dict[str, object]:
    return {
        one.trial.label: as_json(one.figures)
        | {
            "published_mean_wait_s": one.trial.published_s,
            "walls": one.trial.policy.walls,
            "lengths": one.trial.policy.lengths,
            "simulated_in_s": one.took_s,
        }
        for one in played
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [source.name for source in WORKLOADS]
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"{', '.join(names)}")
    parser.add_argument(
        "--traces", type=Path, metavar="FOLDER",
        default=Path(os.environ.get("CARREL_TRACES", ROOT.parent / "shared" / "traces")),
    )  # fmt: skip
    parser.add_argument("--jobs", type=Path, metavar="FILE", help="another workload")
    parser.add_argument("--nodes", metavar="FILE", help="its cluster, or how many nodes it has")
    parser.add_argument("--format", choices=list(Format), help="whose columns FILE has")
    parser.add_argument("--from", dest="start", metavar="TIME", help="only jobs since then")
    parser.add_argument("--until", metavar="TIME", help="only jobs submitted before")
    parser.add_argument(
        "--policy", action="append", default=[], metavar="FILE|NAME", help="only these policies"
    )
    parser.add_argument("--walls", choices=list(Walls), help="for all of --policy")
    parser.add_argument("--lengths", choices=list(Known), help="for all of --policy")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    found = parser.parse_args()
    for name in found.workloads:
        if name not in names:
            parser.error(f"no workload {name!r}: there are {', '.join(names)}")
    if (found.jobs is None) != (found.nodes is None):
        parser.error("--jobs and --nodes belong together")
    return found


def _sources(asked: argparse.Namespace) -> list[Source]:
    if asked.jobs is None:
        return [one for one in WORKLOADS if not asked.workloads or one.name in asked.workloads]
    form = Format(asked.format) if asked.format else format_of(asked.jobs)
    start, end = (moment(text, form) if text else None for text in (asked.start, asked.until))
    # Files given by name are looked for where we are, not in the folder of the known ones.
    nodes = asked.nodes if asked.nodes.isdecimal() else str(Path(asked.nodes).absolute())
    jobs = str(asked.jobs.absolute())
    return [Source(asked.jobs.name, jobs, nodes, (), Window(start, end), form)]


def _chosen(asked: argparse.Namespace, loaded: Loaded, source: Source) -> Loaded:
    """With the policies that were asked for, if any were."""
    trials = loaded.trials
    if asked.policy:
        own: dict[str, object] = {}
        if asked.walls:
            own["walls"] = Walls(asked.walls)
        if asked.lengths:
            own["lengths"] = Known(asked.lengths)
        trials = tuple(Trial(replace(find_policy(text), **own)) for text in asked.policy)
    elif source.form is not None:
        trials = usual_trials(source.form, loaded.cluster)
    return replace(loaded, trials=trials)


def main() -> int:
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found: dict[str, object] = {}
    try:
        read = [_chosen(asked, load(source, asked.traces), source) for source in _sources(asked)]
        with ProcessPoolExecutor(asked.processes) as workers:
            under_way = [
                (loaded, [workers.submit(play, loaded, trial) for trial in loaded.trials])
                for loaded in read
            ]
            for loaded, trials in under_way:
                played = [trial.result() for trial in trials]
                say(loaded, played)
                found[loaded.name] = _json(played)
    except (TableError, PolicyError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
