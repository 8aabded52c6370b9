"""Whatever a test leaves behind is ended with it, and nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.processes import ended_under


def _sleeper(*words: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", *words],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def test_who_is_about_a_directory_ends_with_it(tmp_path: Path) -> None:
    mine, neighbour = tmp_path / "mine", tmp_path / "mine too"
    other = _sleeper(str(neighbour / "spool"))
    try:
        with pytest.raises(ZeroDivisionError), ended_under(mine):
            left = [_sleeper(str(mine / "spool")), _sleeper(CARREL_RUN_DIR=str(mine / "run"))]
            print(1 // 0)
        assert [one.wait(timeout=20) for one in left] == [-signal.SIGKILL] * 2
        assert other.poll() is None
    finally:
        other.kill()
        other.wait(timeout=20)
