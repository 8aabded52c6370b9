"""The sample job: it learns, writes whole checkpoints, goes on from them, stops when asked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jobs.practice import train


def start(directory: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, train.__file__, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "CARREL_CHECKPOINT_DIR": str(directory), **environment},
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    return out


def checkpoints(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def steps(out: str) -> list[int]:
    return [int(number) for number in re.findall(r"step +(\d+)  loss", out)]


def test_it_learns_and_writes_checkpoints(tmp_path: Path) -> None:
    out = finish(
        start(tmp_path, "--seconds", "0", "--epochs", "10", CUDA_VISIBLE_DEVICES="GPU-a,GPU-b")
    )
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", out)]
    assert "GPUs: GPU-a,GPU-b" in out
    assert len(losses) == 10
    assert losses[-1] < losses[0] / 2
    assert checkpoints(tmp_path) == ["checkpoint-step-000400.npz", "checkpoint-step-000800.npz"]
    with np.load(tmp_path / "checkpoint-step-000800.npz") as kept:
        assert int(kept["step"]) == 800


@pytest.mark.parametrize("name", ["", "checkpoint-step-000400.npz"])
def test_it_goes_on_where_a_checkpoint_ends(tmp_path: Path, name: str) -> None:
    finish(start(tmp_path, "--seconds", "0", "--epochs", "5"))
    out = finish(
        start(tmp_path, "--seconds", "0", "--epochs", "7", CARREL_RESUME_FROM=str(tmp_path / name))
    )
    assert "at step 400" in out
    assert steps(out) == [480, 560]


def test_nothing_to_go_on_from_is_said(tmp_path: Path) -> None:
    process = start(tmp_path, CARREL_RESUME_FROM=str(tmp_path))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no checkpoint-step-NUMBER.npz" in out


def test_ranks_that_save_the_same_step_do_not_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, flush = {"step": np.array(80)}, os.fsync

    def meanwhile(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", flush)
        monkeypatch.setenv("SLURM_PROCID", "1")
        train.save(state, tmp_path)

    monkeypatch.setattr(os, "fsync", meanwhile)
    monkeypatch.setenv("SLURM_PROCID", "0")
    train.save(state, tmp_path)
    assert checkpoints(tmp_path) == ["checkpoint-step-000080.npz"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_ends_it_after_one_more_checkpoint(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, "--seconds", "600")
    assert process.stdout is not None
    while "epoch" not in process.stdout.readline():
        pass
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"stopped by {number.name}" in out
    (name,) = checkpoints(tmp_path)
    with np.load(tmp_path / name) as kept:
        assert int(kept["step"]) == int(name.removesuffix(".npz").rpartition("-")[2])


def test_it_runs_without_a_place_for_checkpoints(tmp_path: Path) -> None:
    process = start(tmp_path, "--seconds", "0", "--epochs", "5", CARREL_CHECKPOINT_DIR="")
    assert "finished" in finish(process)
    assert checkpoints(tmp_path) == []
