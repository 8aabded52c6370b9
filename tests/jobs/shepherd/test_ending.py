"""Stops, walltime, warnings, grace, memory."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from tests.jobs.shepherd.node import Node, eventually, processes_with, tail

DEAF = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
TRAPS = "trap 'echo heard; exit 9' {}; echo ready; while :; do sleep 0.1; done"


def test_a_stop_lets_it_end_by_itself(node: Node) -> None:
    node.launch(TRAPS.format("TERM"))
    node.says(b"ready")
    node.stop(grace_s=600)
    run = node.ended()
    assert (run["cause"], run["exit_code"]) == ("stopped", 9)
    assert b"heard\n" in tail(run)


def test_a_deaf_job_is_killed_after_the_grace(node: Node) -> None:
    node.launch(DEAF)
    node.says(b"ready")
    node.stop(grace_s=1)
    run = node.ended()
    assert (run["cause"], run["signal"]) == ("stopped", signal.SIGKILL)


def test_the_program_below_the_shell_gets_the_grace_too(node: Node) -> None:
    saving = (
        "import signal, sys, time\n"
        "def save(*_):\n"
        "    time.sleep(1); print('saved', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)"
    )
    node.launch(f"python3 -c \"{saving}\"\necho 'the shell lives'")
    node.says(b"ready")
    node.stop(grace_s=600)
    assert b"saved\n" in tail(node.ended())


def test_a_repeated_stop_signals_once_and_never_gives_more_time(node: Node) -> None:
    node.launch("trap 'echo heard' TERM; echo ready; while :; do sleep 0.1; done")
    node.says(b"ready")
    for _ in range(3):
        node.stop(grace_s=600)
    node.says(b"heard")
    node.stop(grace_s=1)
    node.stop(grace_s=600)
    run = node.ended()
    assert tail(run).count(b"heard\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR2])
def test_a_stop_sends_the_signal_asked_for(node: Node, number: signal.Signals) -> None:
    node.launch(TRAPS.format(number.name[3:]))
    node.says(b"ready")
    node.stop(number=number, grace_s=600)
    assert node.ended()["exit_code"] == 9


def test_the_log_says_why_and_with_which_signal(node: Node) -> None:
    node.launch(TRAPS.format("USR1"))
    node.says(b"ready")
    node.stop(number=signal.SIGUSR1, grace_s=60, why="makes room for\njob 17 (production)")
    node.says(b"[carrel] makes room for job 17 (production): sending SIGUSR1; killed after 60 s\n")


def test_a_stop_before_the_launch_makes_it_start_nothing(node: Node) -> None:
    node.stop()
    run = node.observe()
    assert (run["phase"], run["cause"], run["started_at"]) == ("exited", "stopped", None)
    launched = node.launch("echo never")
    assert not launched["accepted"]
    assert launched["message"] == "stopped before it began"
    assert node.log() == b""


def test_a_stop_after_the_end_changes_nothing(node: Node) -> None:
    node.launch("exit 3")
    run = node.ended()
    node.stop()
    assert node.observe() == run


def test_walltime_ends_it(node: Node) -> None:
    word = f"9{uuid4().int % 10**8:08d}"
    node.launch(f"(setsid sleep {word} &); sleep {word}", walltime_s=1, grace_s=600)
    run = node.ended()
    assert (run["cause"], run["signal"]) == ("walltime", signal.SIGTERM)
    assert run["message"] == "its walltime of 1 s is over"
    assert b"[carrel] its walltime of 1 s is over: sending SIGTERM; killed after 600 s\n" in tail(
        run
    )
    assert processes_with(word) == []


def test_walltime_kills_the_deaf_after_the_grace(node: Node) -> None:
    node.launch(DEAF, walltime_s=1, grace_s=1)
    run = node.ended()
    assert (run["cause"], run["signal"]) == ("walltime", signal.SIGKILL)
    assert run["ended_at"] - run["started_at"] >= 2


def test_a_warning_comes_before_the_walltime(node: Node) -> None:
    node.launch(
        "trap 'echo warned; exit 0' USR1; echo ready; while :; do sleep 0.1; done",
        walltime_s=600,
        warning_signal=int(signal.SIGUSR1),
        warning_before_s=599,
    )
    run = node.ended()
    assert (run["cause"], run["exit_code"]) == ("exited", 0)
    assert b"warned\n" in tail(run)
    assert b"s before the time limit: sending SIGUSR1, as --signal asks\n" in tail(run)


def test_too_much_memory_ends_it(node: Node) -> None:
    script = (
        "python3 -c \"x = b'x' * (300 << 20); print('full', flush=True); input()\" < <(sleep 600)"
    )
    node.launch(script, memory_mib=128)
    run = node.ended()
    assert run["cause"] == "memory"
    assert "its limit is 128 MiB" in run["message"]
    assert int(run["message"].split()[2]) > 128


def test_shared_memory_counts_once(node: Node) -> None:
    script = (
        "import os, time, sys\n"
        "x = bytearray(b'x') * (100 << 20)\n"
        "pids = [os.fork() for _ in range(2)]\n"
        "if 0 in pids: sum(x[::4096]); time.sleep(600)\n"
        "print('forked', flush=True)\n"
        "time.sleep(3)\n"
    )
    node.launch(f"#!/usr/bin/env python3\n{script}", memory_mib=250)
    run = node.ended()
    assert (run["cause"], run["exit_code"]) == ("exited", 0)


def test_ended_runs_are_collected_and_others_kept(node: Node) -> None:
    node.launch("true")
    node.launch("sleep 600", key="j2.a1.n0")
    node.ended()
    answer = node.call("collect", keys=["j1.a1.n0", "j2.a1.n0", "j3.a1.n0"])
    assert answer["collected"] == ["j1.a1.n0", "j3.a1.n0"]
    assert answer["kept"] == ["j2.a1.n0"]
    eventually(lambda: not node.run_dir().exists(), "it is gone")
    assert node.observe()["phase"] == "absent"
    assert sorted(path.name for path in node.spool.iterdir() if "collected" in path.name) == []


@pytest.mark.lab
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
def test_a_run_that_filled_the_disk_can_be_stopped(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=True)
    try:
        node = Node(disk / "spool")
        full = disk / "full"
        node.launch(f"cat /dev/zero >{full}; echo full; sleep 600", log_cap_bytes=1000)
        eventually(lambda: os.statvfs(disk).f_bavail == 0, "the disk is full")
        node.stop(grace_s=1)
        eventually(lambda: not processes_with("j1.a1.n0/script"), "its processes are gone")
        full.unlink()
        assert node.ended()["cause"] == "stopped"
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
