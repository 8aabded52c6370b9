"""Carrel's scheduler over public workloads, beside what others reached on the same files.

    .venv/bin/python bench/traces.py [WORKLOAD...] [--traces FOLDER] [--json FILE]
    .venv/bin/python bench/traces.py --jobs FILE --nodes FILE [--format venus|philly|ricc|openb] ...

Without a workload's name all are played. The files are not part of Carrel: FOLDER is where they
lie (`CARREL_TRACES`, or ../shared/traces beside the checkout), under the names in `WORKLOADS`.

For each policy a line; where others published a mean waiting time for the same policy on the same
files, it is beside ours, with how far the two are apart. `docs/simulate.md` explains the figures.
What is tried is in `bench/trials.py`.
The pods of openb have no times: of them it is told how much is allocated (`bench/openb.py`).
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import openb
from bench.trials import TRACES, WORKLOADS, Source, Trial, usual_trials
from jobs.scheduler.simulate.measure import Figures
from jobs.scheduler.simulate.play import play as simulate
from jobs.scheduler.simulate.policies import Known, Walls, find_policies
from jobs.scheduler.simulate.scenario import check_told
from jobs.scheduler.simulate.tell import as_json, table
from jobs.scheduler.simulate.traces import (
    Cluster,
    Format,
    Kept,
    find_cluster,
    format_of,
    keep_possible,
    read_jobs,
    read_window,
)
from jobs.scheduler.simulate.workload import GPUS_PER_NODE

PROCESSES = 2


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
    cluster = find_cluster(source.nodes, folder)
    jobs = read_jobs(folder / source.jobs, source.form, source.window)
    return Loaded(source.name, keep_possible(jobs, cluster, GPUS_PER_NODE), cluster, source.trials)


def play(loaded: Loaded, trial: Trial) -> Played:
    """Raises `PolicyError` where the workload does not tell what the policy needs to know."""
    began = time.process_time()
    found = simulate(loaded.name, loaded.kept.jobs, loaded.cluster, trial.policy, time.perf_counter)
    return Played(trial, found, time.process_time() - began)


def play_all(read: list[Loaded], processes: int) -> Iterator[tuple[Loaded, list[Played]]]:
    """Each workload once all of its trials have been played; each trial is told on the way."""
    with ProcessPoolExecutor(processes) as workers:
        under_way = [
            (loaded, [workers.submit(play, loaded, trial) for trial in loaded.trials])
            for loaded in read
        ]
        for loaded, trials in under_way:
            for done in as_completed(trials):
                one = done.result()
                print(
                    f"{loaded.name}: {one.trial.label}: mean wait "
                    f"{one.figures.mean_wait_s:,.1f} s, simulated in {one.took_s:,.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
            yield loaded, [trial.result() for trial in trials]


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
    for one in played:
        if len(one.figures.bands) > 1:
            print(f"  {one.trial.label}: {_of_bands(one.figures)}")
        longer = longer_than_behind_walls(one, played)
        if longer is not None:
            told = ", ".join(f"{name} {a:,.0f} s, {b:,.0f} s" for name, (a, b) in longer.items())
            print(f"  {one.trial.label}: projects that wait longer than walled: {told or 'none'}")
    sys.stdout.flush()


def _of_bands(found: Figures) -> str:
    waits = ", ".join(
        f"{band} {one.mean_wait_s:,.1f} s (p99 {one.p99_wait_s:,.0f} s, {one.jobs:,} jobs)"
        for band, one in found.bands.items()
    )
    return f"mean wait of {waits}"


def longer_than_behind_walls(
    lent: Played, played: list[Played]
) -> dict[str, tuple[float, float]] | None:
    """Projects whose mean wait is longer than with the same policy behind walls, and both.

    None where that was not tried, or nothing is lent.
    """
    if lent.trial.policy.walls is not Walls.LENT:
        return None
    walled = replace(lent.trial.policy, walls=Walls.HARD)
    for one in played:
        if one.trial.policy == walled:
            own = one.figures.projects
            return {
                name: (part.mean_wait_s, own[name].mean_wait_s)
                for name, part in lent.figures.projects.items()
                if part.mean_wait_s > own[name].mean_wait_s
            }
    return None


def _json(played: list[Played]) -> dict[str, object]:
    return {
        one.trial.label: as_json(one.figures)
        | {
            "published_mean_wait_s": one.trial.published_s,
            "walls": one.trial.policy.walls,
            "lengths": one.trial.policy.lengths,
            "best_effort": one.trial.policy.best_effort,
            "checkpoints": one.trial.policy.checkpoints,
            "longer_than_behind_walls": longer_than_behind_walls(one, played),
            "simulated_in_s": one.took_s,
        }
        for one in played
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [source.name for source in (*WORKLOADS, *openb.WORKLOADS)]
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"{', '.join(names)}")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", default=TRACES)
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
    form = _format(asked)
    if form is Format.OPENB:
        return []
    window = read_window(asked.start, asked.until, form)
    return [Source(asked.jobs.name, str(asked.jobs), asked.nodes, (), window, form)]


def _format(asked: argparse.Namespace) -> Format:
    return Format(asked.format) if asked.format else format_of(asked.jobs)


def _chosen(asked: argparse.Namespace, loaded: Loaded, source: Source) -> Loaded:
    """With the policies that were asked for, if any were."""
    trials = loaded.trials
    if asked.policy:
        own: dict[str, object] = {}
        if asked.walls:
            own["walls"] = Walls(asked.walls)
        if asked.lengths:
            own["lengths"] = Known(asked.lengths)
        trials = tuple(Trial(replace(one, **own)) for one in find_policies(asked.policy))
    elif source.form is not None:
        trials = usual_trials(source.form, loaded.cluster)
    return replace(loaded, trials=trials)


def main() -> int:
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found: dict[str, object] = {}
    # Files given by name are looked for where we are, not in the folder of the known ones.
    folder = Path() if asked.jobs else asked.traces
    try:
        if asked.json:
            # That it cannot be written is not to show after hours.
            asked.json.open("a").close()
        read = [_chosen(asked, load(source, folder), source) for source in _sources(asked)]
        for loaded in read:
            for trial in loaded.trials:
                check_told(loaded.name, loaded.kept.jobs, loaded.cluster, trial.policy)
        form = _format(asked) if asked.jobs else None
        pods = openb.chosen(asked.workloads, asked.jobs, asked.nodes, form, asked.policy)
        for loaded, played in play_all(read, asked.processes):
            say(loaded, played)
            found[loaded.name] = _json(played)
        found |= openb.show(pods, asked.traces, asked.policy, asked.processes)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
