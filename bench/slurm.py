"""A real Slurm of our own on this machine, thrown away afterwards.

    with Slurm(nodes=16, gpus=8) as slurm:
        figure = slurm.run_noop(1000, clients=4)

Its own munged, slurmctld and one slurmd a node, all on loopback and in one scratch directory.
Needs root and Debian's `slurm-wlm` and `munge`; nothing of an installed Slurm is touched.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "sinfo", "scancel")
OVER = ("PENDING", "CONFIGURING", "RUNNING")
MARK = "CARREL_BENCH_SLURM"
"""Stands in the environment of all we start and of every job, so that all of it can be found."""

CONFIG = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={base}/munge.socket
SlurmctldPort={port}
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/spool/%n
SlurmctldPidFile={base}/slurmctld.pid
SlurmdPidFile={base}/run/%n.pid
SlurmctldLogFile={base}/log/slurmctld.log
SlurmdLogFile={base}/log/%n.log
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters={slurm.scheduler}
PriorityType=priority/multifactor
SlurmdParameters=config_overrides
ReturnToService=2
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
MaxJobCount=100000
MaxArraySize=10001
GresTypes=gpu
# Sockets as such a machine has them: CPUs=64 alone makes 64, and Slurm looks for GPUs at each.
NodeName=DEFAULT CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=512000 Gres=gpu:a100:{slurm.gpus}
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

HIGH_THROUGHPUT = "default_queue_depth=10000,sched_min_interval=20000"
"""As Slurm's guide to high throughput advises."""


class SlurmUnavailable(Exception):
    """This machine can't run it; the text says what is missing."""


class SlurmFailed(Exception):
    """It did not do what was asked; the text says what it did."""


@dataclass(frozen=True)
class NoopRun:
    """What running the jobs took. Times in seconds from the first submission."""

    count: int
    way: str
    submitted_s: float
    ended_s: float

    @property
    def jobs_per_s(self) -> float:
        return self.count / self.ended_s


class Slurm:
    """A private cluster of `nodes` nodes of `gpus` GPUs each.

    `scheduler` is what stands as SchedulerParameters in its slurm.conf.
    """

    def __init__(self, nodes: int = 16, gpus: int = 8, scheduler: str = HIGH_THROUGHPUT) -> None:
        self.nodes, self.gpus, self.scheduler = nodes, gpus, scheduler
        self._base = Path()
        self._started: list[subprocess.Popen[bytes]] = []
        self._environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        if missing := unavailable():
            raise SlurmUnavailable(missing)
        self._base = Path(tempfile.mkdtemp(prefix="carrel-bench-slurm-"))
        self._environment = os.environ | {
            "SLURM_CONF": str(self._base / "slurm.conf"),
            MARK: str(self._base),
        }
        try:
            self._write_config()
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run_noop(self, count: int, *, clients: int, array: bool = False) -> NoopRun:
        """Run no-op batch jobs of one GPU each and wait until the last one's end is recorded.

        `clients` programs submit at a time; with `array` it is one submission of one job array.
        Raises `SlurmFailed` unless every job ran exactly once and exited with 0.
        """
        evidence = self._base / f"evidence-{secrets.token_hex(4)}"
        evidence.touch()
        script = evidence.with_suffix(".sh")
        script.write_text(f'#!/bin/sh\necho "$SLURM_JOB_ID" >>{evidence}\n')
        command = ["sbatch", "--parsable", "--gres=gpu:1", "--mem=1G", "--time=10"]
        command += ["--output=/dev/null", f"--job-name={evidence.name}"]
        began = time.monotonic()
        if array:
            self.ask(*command, f"--array=1-{count}", str(script))
        else:
            with ThreadPoolExecutor(clients) as pool:
                list(pool.map(lambda _: self.ask(*command, str(script)), range(count)))
        submitted = time.monotonic()
        _wait(lambda: evidence.read_bytes().count(b"\n") >= count, 600, "jobs did not all run")
        _wait(lambda: not self._open(evidence.name), 120, "jobs did not all end")
        ended = time.monotonic()
        self._check(count, evidence)
        way = "one job array" if array else f"sbatch, {clients} at a time"
        return NoopRun(count, way, submitted - began, ended - began)

    def _open(self, name: str) -> str:
        return self.ask("squeue", "-h", f"--name={name}", f"--states={','.join(OVER)}")

    def _check(self, count: int, evidence: Path) -> None:
        ran = evidence.read_text().split()
        if len(ran) != count or len(set(ran)) != count:
            raise SlurmFailed(f"{len(set(ran))} of {count} jobs ran, {len(ran)} times in all")
        rows = [
            dict(word.split("=", 1) for word in line.split() if "=" in word)
            for line in self.ask("scontrol", "show", "job", "-o").splitlines()
        ]
        well = {
            row["JobId"]
            for row in rows
            if row["JobName"] == evidence.name
            and row["JobState"] in ("COMPLETED", "COMPLETING")
            and row["ExitCode"] == "0:0"
        }
        if well != set(ran):
            raise SlurmFailed(f"{len(well & set(ran))} of {count} jobs are recorded as completed")

    def _write_config(self) -> None:
        base = self._base
        base.chmod(0o755)
        for name in ("state", "spool", "run", "log", "dev"):
            (base / name).mkdir()
        for index in range(self.gpus):
            # A regular file would do for counting, but CUDA_VISIBLE_DEVICES would stay unset.
            os.mknod(base / f"dev/nvidia{index}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        host = socket.gethostname().split(".")[0]
        ports = _free_ports(self.nodes + 1)
        nodes = "\n".join(
            f"NodeName=vn{index} NodeHostName={host} NodeAddr=127.0.0.1 Port={port}"
            for index, port in enumerate(ports[1:])
        )
        text = CONFIG.format(slurm=self, host=host, base=base, port=ports[0], nodes=nodes)
        (base / "slurm.conf").write_text(text)
        (base / "gres.conf").write_text(
            f"NodeName=vn[0-{self.nodes - 1}] Name=gpu Type=a100 "
            f"File={base}/dev/nvidia[0-{self.gpus - 1}]\n"
        )
        key = base / "munge.key"
        key.touch(mode=0o400)
        key.write_bytes(secrets.token_bytes(128))

    def _start(self) -> None:
        base = self._base
        self._run(
            "munged", "-F", "-S", f"{base}/munge.socket", "--key-file", f"{base}/munge.key",
            "--pid-file", f"{base}/munged.pid", "--log-file", f"{base}/log/munged.log",
            "--seed-file", f"{base}/munged.seed", "--num-threads", "4",
        )  # fmt: skip
        _wait((base / "munge.socket").exists, 20, f"munged did not start: see {base}/log")
        self._run("slurmctld", "-D", "-f", f"{base}/slurm.conf")
        for index in range(self.nodes):
            (base / f"spool/vn{index}").mkdir()
            self._run("slurmd", "-D", "-f", f"{base}/slurm.conf", "-N", f"vn{index}")
        _wait(self._all_idle, 60, "the nodes of Slurm did not come up")

    def _all_idle(self) -> bool:
        for process in self._started:
            if process.poll() is not None:
                raise SlurmFailed(f"{process.args[0]} ended: {self._log_tail()}")  # type: ignore[index]
        try:
            return self.ask("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * self.nodes
        except SlurmFailed:
            return False

    def _log_tail(self) -> str:
        logs = (log.read_text(errors="replace") for log in sorted((self._base / "log").iterdir()))
        return (
            "; ".join(line for log in logs for line in log.splitlines()[-3:]) or "it says nothing"
        )

    def _run(self, *command: str) -> None:
        # A session of its own: Ctrl-C reaches only us, and we end it in order.
        self._started.append(
            subprocess.Popen(
                command, env=self._environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip

    def ask(self, *command: str) -> str:
        """What a command of Slurm prints; `SlurmFailed` when it does not exit with 0."""
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False,
            start_new_session=True, timeout=120,
        )  # fmt: skip
        if done.returncode:
            raise SlurmFailed(f"{command[0]} answered {done.stderr.strip() or done.returncode}")
        return done.stdout

    def _end(self) -> None:
        # A second Ctrl-C waits until all is gone.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            self._end_all()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _end_all(self) -> None:
        for process in reversed(self._started):
            process.terminate()
        deadline = time.monotonic() + 10
        for process in self._started:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # What they started in turn (slurmstepd, jobs) is no child of ours.
        _wait(lambda: not _kill_marked(self._base), 10, "processes of Slurm do not end")
        shutil.rmtree(self._base)
        self._started = []


def unavailable() -> str:
    """Why there can be no private Slurm here, or "" when there can."""
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        return f"{', '.join(missing)} not found: apt-get install slurm-wlm munge"
    if os.geteuid():
        return "a private Slurm needs root: it makes device files and runs slurmd"
    return ""


def version() -> str:
    """As in "slurm-wlm 22.05.8"."""
    return subprocess.run(
        ["slurmctld", "-V"], capture_output=True, text=True, check=True
    ).stdout.strip()


def _kill_marked(base: Path) -> int:
    """SIGKILL to every process that carries our mark; how many there were."""
    mark = f"{MARK}={base}".encode()
    found = 0
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
                found += 1
        except OSError:
            continue
    return found


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in held]
    for server in held:
        server.close()
    return ports


def _wait(done: Callable[[], object], timeout_s: float, else_: str) -> None:
    """Poll until `done()` is true; after so long `SlurmFailed`, which begins with `else_`."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise SlurmFailed(f"{else_} within {timeout_s:.0f} s")
        time.sleep(0.02)
