"""How soon and how fast Carrel gets jobs to run, and the same of a real Slurm beside it.

    .venv/bin/python bench/dispatch.py [--json FILE]

Each side is started for this alone and thrown away afterwards, one after the other.

1. The idle practice lab, as on a first start: jobs one after another through the submit form of
   the web pages, from the moment the form is sent to the first thing the job's process does.
2. The same against real OpenSSH servers, 16 nodes on loopback.
3. On those, 1,000 jobs that only write one line, one GPU each, as single jobs and as one array:
   from the first submission to the end of the last job as recorded in the database.
4. The same 1,000 jobs on Slurm: as single jobs from one client, from four, and as one array.

Every job's own line is checked: each ran exactly once and exited with 0. Of each side the best
way counts as its figure. Needs root, Debian's openssh-server, slurm-wlm and munge.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import nodes, slurm
from bench.portal import Person, Portal, PortalFailed
from jobs.nodes.ssh import generate_key

SEED = 20
CLIENTS = 4
ENDS_WITHIN_S = 600


@dataclass(frozen=True)
class Latency:
    """Seconds from a submission to the first thing its process did."""

    count: int
    p50_s: float
    p95_s: float
    worst_s: float


@dataclass(frozen=True)
class Throughput:
    """Seconds from the first submission; `way` says how it was submitted."""

    count: int
    way: str
    submitted_s: float
    ended_s: float

    @property
    def jobs_per_s(self) -> float:
        return self.count / self.ended_s


def latency(portal: Portal, person: Person, count: int, scratch: Path) -> Latency:
    """Submit so many jobs, each to an idle lab, with pauses that keep step with no timer."""
    evidence = _evidence(scratch)
    script = _script(f'echo "$CARREL_JOB_ID $EPOCHREALTIME" >>{evidence}')
    pauses = random.Random(SEED)
    asked: dict[int, float] = {}
    for _ in range(count):
        job_id, asked_at = person.submit(script)
        asked[job_id] = asked_at
        portal.wait_for_end([job_id], timeout_s=60)
        time.sleep(pauses.uniform(0.2, 1.2))
    _check(portal, evidence, list(asked))
    began = {
        int(job_id): float(at) for job_id, at in map(str.split, evidence.read_text().splitlines())
    }
    took = sorted(began[job_id] - asked[job_id] for job_id in asked)
    cuts = quantiles(took, n=20, method="inclusive")
    return Latency(count, cuts[9], cuts[18], took[-1])


def throughput(portal: Portal, count: int, *, array: bool, scratch: Path) -> Throughput:
    """Submit no-op jobs by `portal.actions`, in one process, one transaction each."""
    evidence = _evidence(scratch)
    script = _script(f'echo "$CARREL_JOB_ID" >>{evidence}', shell="/bin/sh")
    before = portal.rows("SELECT coalesce(max(id), 0) FROM portal_job")[0][0]
    asked = {"script": script, "count": count, "array": array}
    told = json.loads(portal.inside("submit", json.dumps(asked)))
    portal.wait_for_end(None, timeout_s=ENDS_WITHIN_S)
    ended = time.time()
    ids = [row[0] for row in portal.rows("SELECT id FROM portal_job WHERE id > ?", before)]
    if len(ids) != count:
        raise PortalFailed(f"{len(ids)} jobs are recorded, not {count}")
    _check(portal, evidence, ids)
    way = "one job array" if array else "one by one"
    return Throughput(count, way, told["submitted_s"], ended - told["began_at"])


def _evidence(scratch: Path) -> Path:
    handle, path = tempfile.mkstemp(prefix="evidence-", dir=scratch)
    os.close(handle)
    return Path(path)


def _script(line: str, shell: str = "/bin/bash") -> str:
    return f"#!{shell}\n#SBATCH --job-name=noop --gres=gpu:1 --time=10\n{line}\n"


def _check(portal: Portal, evidence: Path, ids: list[int]) -> None:
    """Each job wrote its line exactly once, and stands in the database as completed with 0."""
    ran = [int(line.split()[0]) for line in evidence.read_text().splitlines()]
    if sorted(ran) != sorted(ids):
        twice, missing = len(ran) - len(set(ran)), len(set(ids) - set(ran))
        raise PortalFailed(f"of {len(ids)} jobs {missing} did not run, {twice} lines are double")
    wanted = set(ids)
    ends = portal.rows("SELECT id, state, exit_code FROM portal_job")
    wrong = [row for row in ends if row[0] in wanted and row[1:] != ("COMPLETED", 0)]
    if wrong:
        raise PortalFailed(f"{len(wrong)} jobs did not end well, the first as {wrong[0]}")


def measure_practice(arguments: argparse.Namespace, scratch: Path) -> Latency:
    """Part 1."""
    with Portal(scratch / "practice", practice=True) as portal:
        person = portal.sign_in()
        portal.inside("cancel-all")  # the sample job: the lab is to be idle
        portal.wait_for_end(None, timeout_s=120)
        return latency(portal, person, arguments.latency_jobs, scratch)


def measure_sshd(arguments: argparse.Namespace, scratch: Path) -> tuple[Latency, list[Throughput]]:
    """Parts 2 and 3."""
    data = scratch / "sshd"
    (data / "ssh").mkdir(parents=True)
    key = generate_key(data / "ssh" / "id_ed25519")
    lab = nodes.ssh_nodes(scratch / "nodes", arguments.nodes, arguments.gpus, key)
    with lab as machines, Portal(data, practice=False) as portal:
        portal.inside("add-nodes", json.dumps([asdict(machine) for machine in machines]))
        person = portal.sign_in()
        soon = latency(portal, person, arguments.latency_jobs, scratch)
        say_latency(f"real sshd, {arguments.nodes} nodes", soon)
        fast = []
        for array in (False, True):
            fast.append(throughput(portal, arguments.jobs, array=array, scratch=scratch))
            say_throughput("Carrel", fast[-1])
        return soon, fast


def measure_slurm(arguments: argparse.Namespace) -> list[slurm.NoopRun]:
    """Part 4."""
    found = []
    with slurm.Slurm(arguments.nodes, arguments.gpus) as cluster:
        for clients, array in ((1, False), (CLIENTS, False), (1, True)):
            found.append(cluster.run_noop(arguments.jobs, clients=clients, array=array))
            say_throughput("Slurm", found[-1])
    return found


def say_latency(where: str, found: Latency) -> None:
    print(
        f"{where:<22} p50 {found.p50_s:6.3f} s   p95 {found.p95_s:6.3f} s   "
        f"worst {found.worst_s:6.3f} s   ({found.count} jobs)",
        flush=True,
    )


def say_throughput(who: str, found: Throughput | slurm.NoopRun) -> None:
    print(
        f"{who:<7} {found.way:<20} {found.jobs_per_s:7.1f} jobs/s   submitted in "
        f"{found.submitted_s:6.1f} s, all ended after {found.ended_s:6.1f} s",
        flush=True,
    )


def run(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """All parts that were asked for; the figures by name."""
    figures: dict[str, Any] = {}
    parts = arguments.only or ("practice", "sshd", "slurm")
    if "practice" in parts:
        soon = measure_practice(arguments, scratch)
        say_latency("idle practice lab", soon)
        figures |= _named(soon, "")
    best = None
    if "sshd" in parts:
        soon, fast = measure_sshd(arguments, scratch)
        figures |= _named(soon, "sshd_")
        best = max(found.jobs_per_s for found in fast)
        figures |= {"jobs_per_s": best, "jobs_per_s_one_by_one": fast[0].jobs_per_s}
        figures["jobs_per_s_array"] = fast[1].jobs_per_s
    if "slurm" in parts:
        theirs = measure_slurm(arguments)
        figures["slurm_jobs_per_s"] = max(found.jobs_per_s for found in theirs)
        figures["slurm_jobs_per_s_one_by_one"] = max(f.jobs_per_s for f in theirs[:2])
        figures["slurm_jobs_per_s_array"] = theirs[2].jobs_per_s
        if best is not None:
            figures["ratio_jobs_per_s"] = best / figures["slurm_jobs_per_s"]
    return {name: round(value, 4) for name, value in figures.items()}


def _named(found: Latency, prefix: str) -> dict[str, float]:
    return {
        f"{prefix}submit_to_first_line_p50_s": found.p50_s,
        f"{prefix}submit_to_first_line_p95_s": found.p95_s,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--jobs", type=int, default=1000, help="no-op jobs (1000)")
    parser.add_argument("--latency-jobs", type=int, default=40, help="jobs one by one (40)")
    parser.add_argument("--nodes", type=int, default=16, help="nodes of each side (16)")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs of each node (8)")
    parser.add_argument(
        "--only", action="append", choices=("practice", "sshd", "slurm"), help="leave out others"
    )
    arguments = parser.parse_args()
    if missing := slurm.unavailable():
        print(f"no Slurm to compare with: {missing}", file=sys.stderr)
        return 1
    # Leave through every `with`, as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{platform.platform()}, {os.cpu_count()} CPUs, load before {load}\n"
        f"Python {platform.python_version()}, {nodes.version()}, {slurm.version()}; "
        f"{arguments.nodes} nodes of {arguments.gpus} simulated GPUs",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="carrel-bench-", ignore_cleanup_errors=True) as scratch:
        figures = run(arguments, Path(scratch))
    if "ratio_jobs_per_s" in figures:
        print(f"Carrel's best to Slurm's best: {figures['ratio_jobs_per_s']:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
