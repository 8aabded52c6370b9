from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.engines.ssh import ShepherdEngine
from jobs.nodes.local import LocalTransport
from tests.lab.fixtures import account, scratch, sshd
from tests.lab.sshd import Sshd

__all__ = ["account", "scratch", "sshd"]


@pytest.fixture
def place(scratch: Path) -> Path:
    """A directory on the node, which is this machine."""
    return scratch


@pytest.fixture(params=["ssh", "local"])
def engine(request: pytest.FixtureRequest, place: Path) -> Iterator[ShepherdEngine]:
    """Every engine that can be had here, each on a node without any run."""
    if request.param == "ssh":
        server: Sshd = request.getfixturevalue("sshd")
        made = ShepherdEngine(server.transport(), f"{place}/spool")
    else:
        made = ShepherdEngine(LocalTransport(), f"{place}/spool")
    yield made
    made.close()
