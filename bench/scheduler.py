"""How long a whole pass of Carrel's scheduler takes, and Slurm's backfill over the same queue.

    .venv/bin/python bench/scheduler.py [--pending 1000 5000 20000] [--slurm 5000] [--json FILE]

The busy cluster of `bench/cluster.py`: 100 nodes of 8 GPUs, every one of them held, and a queue of
jobs of 1 to 64 GPUs. A pass is one call of `jobs.scheduler.plan.plan`: promises in time exact to
the GPU, a reason for every job, and for every job an expected start. It is repeated, and the
median counts; each queue has a process of its own, of which the largest size in memory is told
beside the growth against a queue a fifth or a fourth as long.

The last row is another scene: half of what runs is best-effort and could make room, every project
has a quota, and jobs of all bands wait.

Slurm 22.05 gets the same queue (`bench/slurm_backfill.py` says how it is configured in its
favour); what is compared is one whole cycle of its backfill. Needs root, Debian's slurm-wlm and
munge; `--slurm` without a number leaves it out.

What a pass takes that finds nothing to do is told twice. `idle_pass_s` is a plan where nobody
waits, which is next to nothing: the portal does not even take a snapshot then. `unchanged_pass_s_N`
(the column "starts only") is what it makes after a hint while N jobs wait, nothing has changed and
nobody can start: all is decided anew, without reasons and estimates. Neither reads a database.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import cluster as shared
from bench import slurm_backfill
from bench.slurm import unavailable
from jobs.bands import Band
from jobs.scheduler.fairshare import Member, Project
from jobs.scheduler.limits import Demand, Holding, Limits, Quota, Usage
from jobs.scheduler.plan import plan
from jobs.scheduler.snapshot import Gpu, Node, Pending, Running, Snapshot
from jobs.spec import Resources

PENDING = (1000, 5000, 20_000)
NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
REPEATS = 5
PREEMPTING = 1000
"""How many wait where half of what runs could make room."""
BANDS = (Band.PRODUCTION, Band.BATCH, Band.BATCH, Band.BATCH, Band.BEST_EFFORT)
GPUS_OF_A_PROJECT = 120


@dataclass(frozen=True)
class Pass:
    """What a pass took, and what it told."""

    pending: int
    pass_s: float
    starts_only_s: float
    """The same decisions, without reasons and estimates. As every GPU is held nobody starts: it
    is a pass over an unchanged queue."""
    explained: int
    estimated: int
    peak_rss_mb: float


def snapshot(pending: int) -> Snapshot:
    """The cluster and its queue as the scheduler sees them."""
    running, queue = shared.cluster(pending)
    held: list[list[int]] = [[] for _ in range(shared.NODES)]
    for job in running:
        for node in job.on:
            held[node] += [job.order + 1] * job.gpus_per_node
    return Snapshot(
        nodes=tuple(_node(number, jobs) for number, jobs in enumerate(held)),
        pending=tuple(_pending(job) for job in queue),
        running=tuple(_running(job) for job in running),
        projects=tuple(Project(number, f"p{number}", None) for number in range(shared.PROJECTS)),
        members=tuple(Member(user % shared.PROJECTS, user) for user in range(shared.USERS)),
        usage=tuple(
            ((user % shared.PROJECTS, user), 3600.0 * user) for user in range(shared.USERS)
        ),
    )


def preempting(pending: int) -> Snapshot:
    """The same cluster, an hour later: half of what runs is best-effort, a quota for each project,
    and jobs of all bands wait."""
    asked = snapshot(pending)
    begun = NOW - timedelta(hours=1)
    running = tuple(
        replace(job, started_at=begun, band=(Band.BATCH, Band.BEST_EFFORT)[job.id % 2])
        for job in asked.running
    )
    return replace(
        asked,
        running=running,
        pending=tuple(replace(job, band=BANDS[job.id % len(BANDS)]) for job in asked.pending),
        quotas=tuple(Quota(one.id, Limits(gpus=GPUS_OF_A_PROJECT)) for one in asked.projects),
        quota_usage=Usage(NOW, tuple(map(_holding, running))),
    )


def _holding(job: Running) -> Holding:
    begun = job.started_at or NOW
    length = round((job.ends_by - begun).total_seconds())
    asked = Demand(job.id, job.project_id, job.user_id, job.band, job.gpus, length, "gpu")
    return Holding(asked, begun)


def _node(number: int, jobs: list[int]) -> Node:
    holders = [*jobs, *[None] * (shared.GPUS - len(jobs))]
    gpus = tuple(
        Gpu(f"GPU-{number}-{at}", at, "NVIDIA A100-SXM4-80GB", 81_920, holder)
        for at, holder in enumerate(holders)
    )
    return Node(
        id=number,
        name=f"n{number}",
        partition="gpu",
        cpus=shared.CPUS,
        memory_mib=shared.MEMORY_MIB,
        cpus_free=shared.CPUS - len(jobs) * shared.CPUS_PER_GPU,
        memory_free_mib=shared.MEMORY_MIB - len(jobs) * shared.MEMORY_MIB_PER_GPU,
        gpus=gpus,
        jobs=tuple(sorted(set(jobs))),
    )


def _running(job: shared.Asked) -> Running:
    return Running(
        id=job.order + 1,
        ends_by=NOW + timedelta(seconds=job.walltime_s),
        node_ids=job.on,
        cpus_per_node=job.cpus_per_node,
        memory_mib_per_node=job.memory_mib_per_node,
        project_id=job.project,
        user_id=job.user,
        gpus=job.nodes * job.gpus_per_node,
        started_at=NOW,
    )


def _pending(job: shared.Asked) -> Pending:
    return Pending(
        id=job.order + 1,
        submitted_at=NOW - timedelta(days=1) + timedelta(seconds=job.order),
        resources=Resources(
            nodes=job.nodes,
            gpus_per_node=job.gpus_per_node,
            cpus_per_task=job.cpus_per_node,
            memory_mib=job.memory_mib_per_node,
        ),
        walltime_s=job.walltime_s,
        partition="gpu",
        project_id=job.project,
        user_id=job.user,
        # As its own history would tell: a part of the limit, within a spread.
        expected_s=0.5 * job.walltime_s,
        spread_s=(0.2 * job.walltime_s, 0.9 * job.walltime_s),
    )


def measure(asked: Snapshot) -> Pass:
    """In this process: the median of several passes."""
    whole, bare = [], []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        found = plan(asked, NOW)
        whole.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        plan(asked, NOW, explained=False)
        bare.append(time.perf_counter() - begun)
    told = found.explanations.keys() & {job.id for job in asked.pending}
    return Pass(
        pending=len(asked.pending),
        pass_s=median(whole),
        starts_only_s=median(bare),
        explained=len(told),
        estimated=len(found.estimates.keys() & told),
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def apart(pending: int, *scene: str) -> Pass:
    """In a process of its own, so that its memory is its own."""
    argv = [sys.executable, __file__, "--one", str(pending), *scene]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
    return Pass(**json.loads(done.stdout))


def _table(found: list[Pass]) -> None:
    print(f"\n{'pending':>8} {'pass':>9} {'growth':>8} {'per job':>10}", end="")
    print(f" {'starts only':>12} {'reasons':>8}", end="")
    print(f" {'estimates':>10} {'memory':>8}")
    for before, one in zip([None, *found], found, strict=False):
        growth = f"x {one.pass_s / before.pass_s:.1f}" if before and before.pending else ""
        per_job = f"{one.pass_s / one.pending * 1e6:.0f} µs" if one.pending else ""
        print(
            f"{one.pending:>8,} {one.pass_s:>8.3f}s {growth:>8} {per_job:>10}"
            f" {one.starts_only_s:>11.3f}s",
            end="",
        )
        print(f" {one.explained:>8,} {one.estimated:>10,} {one.peak_rss_mb:>5.0f} MB")


def _beside_slurm(pending: int, carrel: Pass) -> dict[str, float]:
    reason = unavailable()
    if reason:
        raise SystemExit(f"Slurm cannot be measured here: {reason}")
    running, queue = shared.cluster(pending)
    found = slurm_backfill.measure(queue, running)
    print(f"\nThe same {pending:,} jobs in Slurm: backfill {found.backfill_s:.2f} s,", end="")
    print(
        f" {found.estimated:,} estimates; Carrel is {found.backfill_s / carrel.pass_s:.1f} times",
        end="",
    )
    print(" as fast.")
    return {
        f"slurm_backfill_s_{pending}": found.backfill_s,
        f"slurm_estimated_{pending}": found.estimated,
        "times_faster": found.backfill_s / carrel.pass_s,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pending", type=int, nargs="+", default=list(PENDING))
    parser.add_argument("--slurm", type=int, nargs="?", default=5000, const=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--preempting", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        make = preempting if arguments.preempting else snapshot
        print(json.dumps(asdict(measure(make(arguments.one)))))
        return 0
    # So that a Slurm that was started is stopped, whoever ends this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(
        f"Carrel's scheduler on {platform.machine()}, Python {platform.python_version()}:", end=""
    )
    print(f" {shared.NODES} nodes of {shared.GPUS} GPUs, all busy; median of {REPEATS} passes.")
    idle, *found = [apart(pending) for pending in (0, *arguments.pending)]
    _table([idle, *found])
    preempted = apart(PREEMPTING, "--preempting")
    print("\nHalf of what runs is best-effort, a quota for each project, jobs of all bands wait:")
    _table([preempted])
    told = {f"pass_s_{one.pending}": one.pass_s for one in found}
    told["idle_pass_s"] = idle.pass_s
    told[f"pass_preempting_s_{PREEMPTING}"] = preempted.pass_s
    told["estimated_share"] = min(one.estimated / one.pending for one in found)
    told["peak_rss_mb"] = max(one.peak_rss_mb for one in found)
    told |= {f"unchanged_pass_s_{one.pending}": one.starts_only_s for one in found}
    if arguments.slurm:
        same = [one for one in found if one.pending == arguments.slurm]
        told |= _beside_slurm(arguments.slurm, same[0] if same else apart(arguments.slurm))
    if arguments.json:
        arguments.json.write_text(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
