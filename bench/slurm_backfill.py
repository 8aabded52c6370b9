"""How long a real Slurm's scheduler takes over a queue, and what it then can tell of it.

    .venv/bin/python bench/slurm_backfill.py --pending 1000 5000 [--json FILE]

A private Slurm (`bench/slurm.py`) of the nodes of `bench/cluster.py`, one slurmd each. The running
jobs hold exactly the GPUs that they hold there, as allocations without a process: a slurmd that
has just started may clear away the first batch scripts it is sent. The pending jobs are submitted
while the partition is down, so that no cycle sees a part of them; then it goes up, and `sdiag` is
read after every backfill cycle, and `squeue` for the start estimates.

Slurm is configured to do all of the work, as cheaply as it can:

- bf_max_job_test, bf_max_time: no cycle ends before the end of the queue.
- bf_node_space_size: a reservation may need two records; a full table would end the cycle.
- bf_continue: a cycle goes on although something changed while it let go of its locks.
- bf_window: as long as the longest walltime, the least that slurm.conf(5) advises. A job that
  would start later gets no reservation; a longer window costs more and is not asked for.
- bf_resolution: slurm.conf(5) advises to let it grow with the window. As coarse as it may be,
  3,600 s: that costs a third of what the default's share of the window, 420 s, does.
- bf_interval: ten seconds between cycles, not thirty, so that this ends sooner; a cycle takes no
  longer for it.
- default_queue_depth, sched_interval: the main scheduler, too, may go over the whole queue, often
  enough to be seen; sched_min_interval as in Slurm's guide to high throughput.

Also in its favour: `sdiag` leaves out of a cycle's time what it slept, and the building of the
queue; without slurmdbd there is no fair share, no quota and no age to look at; every job's
priority is set, in order of submission. There are no job arrays, since Slurm tests only
bf_max_job_array_resv tasks of one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.cluster import GPUS, NODES, WALLTIMES_S, Asked, cluster
from bench.slurm import Slurm, SlurmFailed, unavailable, version

CLIENTS = 4
CYCLES = 3
CYCLE_WITHIN_S = 1800
INTERVAL_S = 10
HIGHEST_PRIORITY = 1_000_000
RESOLUTION_S = 3600

SCHEDULER = (
    "default_queue_depth={depth},sched_interval={interval},sched_min_interval=20000,"
    "bf_continue,bf_interval={interval},bf_max_time=3600,bf_max_job_test={depth},"
    "bf_node_space_size={records},bf_window={window_min},bf_resolution={resolution}"
)

MAIN_COUNTS = {
    "main_last_us": "Last cycle",
    "main_mean_us": "Mean cycle",
}
BACKFILL_COUNTS = {
    "cycles": "Total cycles",
    "last_us": "Last cycle",
    "mean_us": "Mean cycle",
    "tested": "Last depth cycle",
    "tried": "Last depth cycle (try sched)",
}


@dataclass(frozen=True)
class Sdiag:
    """What `sdiag` tells of the cycles since its counters were reset; times in microseconds."""

    active: bool
    """A backfill cycle is under way, and the start estimates are being made anew."""
    cycles: int
    tested: int
    """Jobs the last backfill cycle looked at."""
    tried: int
    last_us: int = 0
    mean_us: int = 0
    main_last_us: int = 0
    main_mean_us: int = 0


@dataclass(frozen=True)
class Measured:
    """What Slurm's two schedulers took, in seconds, and what is known afterwards.

    `main_s` and `backfill_s` are means over all cycles since the partition went up.
    """

    main_s: float
    backfill_s: float
    tested: int
    """Pending jobs that a backfill cycle looked at: all, else it is no measurement."""
    tried: int
    """Those of them that it tried to place on nodes: at some time enough are unreserved."""
    estimated: int
    """Pending jobs with a start estimate; the most that were seen after any cycle."""
    pending: int
    main_last_s: float
    backfill_last_s: float
    backfill_cycles: int
    submitted_s: float


def measure(
    queue: list[Asked],
    running: list[Asked],
    *,
    resolution_s: int = RESOLUTION_S,
    cycles: int = CYCLES,
) -> Measured:
    """Start a Slurm, give it the jobs, and wait for so many backfill cycles, or a few more.

    Raises `SlurmFailed` when a cycle did not go over the whole queue, or a job began or ended.
    """
    with Slurm(NODES, GPUS, scheduler_parameters(len(queue), resolution_s)) as slurm:
        _submit(slurm, running)
        _check_jobs(slurm, len(running), 0)
        slurm.ask("scontrol", "update", "PartitionName=gpu", "State=DOWN")
        began = time.monotonic()
        _submit(slurm, queue)
        submitted_s = time.monotonic() - began
        slurm.ask("sdiag", "--reset")
        last, estimated = _next_cycle(slurm, after=0)
        while last.cycles < cycles:
            last, again = _next_cycle(slurm, after=last.cycles)
            estimated = max(estimated, again)
        _check_jobs(slurm, len(running), len(queue))
    return Measured(
        main_s=last.main_mean_us / 1e6,
        backfill_s=last.mean_us / 1e6,
        tested=last.tested,
        tried=last.tried,
        estimated=estimated,
        pending=len(queue),
        main_last_s=last.main_last_us / 1e6,
        backfill_last_s=last.last_us / 1e6,
        backfill_cycles=last.cycles,
        submitted_s=submitted_s,
    )


def scheduler_parameters(pending: int, resolution_s: int) -> str:
    """SchedulerParameters for a queue of so many jobs; the reasons are above."""
    depth = pending + 1000
    return SCHEDULER.format(
        depth=depth,
        records=2 * depth,
        interval=INTERVAL_S,
        window_min=max(WALLTIMES_S) // 60,
        resolution=resolution_s,
    )


def read_sdiag(text: str) -> Sdiag:
    """Raises `SlurmFailed` when a figure is missing, other than a mean of no cycles."""
    main, _, backfill = text.partition("Backfilling stats")
    counts = {name: _count(main, title) for name, title in MAIN_COUNTS.items()}
    counts |= {name: _count(backfill, title) for name, title in BACKFILL_COUNTS.items()}
    return Sdiag(active="in the middle of backfilling" in text, **counts)


def _count(text: str, title: str) -> int:
    found = re.search(rf"^\s*{re.escape(title)}:\s*(\d+)\s*$", text, re.MULTILINE)
    if found:
        return int(found[1])
    if title.startswith("Mean"):
        return 0
    raise SlurmFailed(f"sdiag does not tell {title!r}")


def _submit(slurm: Slurm, jobs: list[Asked]) -> None:
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda asked: slurm.ask(*_command(asked)), jobs))


def _command(asked: Asked) -> list[str]:
    """A batch job; one that is to run at once is an allocation, which returns when it is made."""
    options = [
        f"--job-name=j{asked.order}", f"--priority={HIGHEST_PRIORITY - asked.order}",
        f"--nodes={asked.nodes}", "--ntasks-per-node=1", f"--cpus-per-task={asked.cpus_per_node}",
        f"--mem={asked.memory_mib_per_node}M", f"--gres=gpu:{asked.gpus_per_node}",
        f"--time={asked.walltime_s // 60}",
    ]  # fmt: skip
    if asked.on:
        names = ",".join(f"vn{node}" for node in asked.on)
        return ["salloc", "--no-shell", f"--nodelist={names}", *options]
    return ["sbatch", "--output=/dev/null", "--wrap=exec sleep infinity", *options]


def _count_jobs(slurm: Slurm, state: str) -> int:
    return len(slurm.ask("squeue", "-h", f"--states={state}", "-o", "%i").split())


def _not_in(slurm: Slurm, *states: str) -> str:
    """The jobs in other states than these, for a message."""
    jobs = slurm.ask("squeue", "-h", "--states=all", "-o", "%T %j (%r) on %N").splitlines()
    return "; ".join(job for job in jobs if job.split()[0] not in states)


def _next_cycle(slurm: Slurm, after: int) -> tuple[Sdiag, int]:
    """Wait for the end of backfill cycle `after` + 1; what it took and how many jobs it estimated.

    The estimates are counted before the next cycle begins, which throws them away.
    """
    # A cycle begins only when something changed since the last; this counts as such.
    slurm.ask("scontrol", "update", "PartitionName=gpu", "State=UP")
    deadline = time.monotonic() + CYCLE_WITHIN_S
    while time.monotonic() < deadline:
        time.sleep(0.5)
        before = read_sdiag(slurm.ask("sdiag"))
        if before.active or before.cycles <= after:
            continue
        starts = slurm.ask("squeue", "-h", "--states=PENDING", "-o", "%S").split()
        now = read_sdiag(slurm.ask("sdiag"))
        if not now.active and now.cycles == before.cycles:
            if now.tested != len(starts):
                raise SlurmFailed(f"backfill looked at {now.tested} of {len(starts)} jobs")
            return now, sum(start != "N/A" for start in starts)
    raise SlurmFailed(f"no backfill cycle ended within {CYCLE_WITHIN_S} s")


def _check_jobs(slurm: Slurm, running: int, pending: int) -> None:
    found = _count_jobs(slurm, "RUNNING"), _count_jobs(slurm, "PENDING")
    if found != (running, pending):
        others = _not_in(slurm, "RUNNING", "PENDING")
        raise SlurmFailed(f"{found} jobs run and wait, not {(running, pending)}; {others}")


def _say(found: Measured) -> None:
    share = found.estimated / found.pending
    print(
        f"{found.pending:>7}  {found.main_s * 1e3:>9.2f} ms  {found.main_last_s * 1e3:>9.2f} ms"
        f"  {found.backfill_s:>9.2f} s  {found.backfill_last_s:>9.2f} s  {found.tested:>6}"
        f"  {found.tried:>6}  {found.estimated:>9} ({share:.1%})",
        flush=True,
    )


def _say_heading(arguments: argparse.Namespace) -> None:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{platform.platform()}, {os.cpu_count()} CPUs, load before {load}\n"
        f"{version()}, {NODES} nodes of {GPUS} GPUs, all held; with the longest queue:\n"
        f"{scheduler_parameters(max(arguments.pending), arguments.resolution)}\n"
        f"{'':7}  {'main':>12}  {'':>12}  {'backfill':>11}\n"
        f"{'pending':>7}  {'mean':>12}  {'last':>12}  {'mean':>11}  {'last':>11}"
        f"  {'tested':>6}  {'tried':>6}  {'estimated':>9}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pending", type=int, nargs="+", default=[1000, 5000], help="jobs that wait (1000 5000)"
    )
    parser.add_argument("--cycles", type=int, default=CYCLES, help=f"of backfill ({CYCLES})")
    parser.add_argument(
        "--resolution", type=int, default=RESOLUTION_S, help=f"bf_resolution in s ({RESOLUTION_S})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    arguments = parser.parse_args()
    if missing := unavailable():
        print(missing, file=sys.stderr)
        return 1
    # Leave through every `with`, as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    _say_heading(arguments)
    figures = []
    for pending in arguments.pending:
        running, queue = cluster(pending)
        found = measure(queue, running, resolution_s=arguments.resolution, cycles=arguments.cycles)
        _say(found)
        figures.append(asdict(found))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
