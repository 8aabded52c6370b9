"""Whole portals and real nodes; a module's tests share them, as they take seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from bench.nodes import SshNode, ssh_nodes
from jobs.nodes.ssh import generate_key
from tests.lab import sshd
from tests.lab.browser import CHROMIUM, chromium
from tests.lab.portal import Carrel, short_directory


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """Where a portal of this module keeps its state."""
    with short_directory() as path:
        yield path / "data"


@pytest.fixture(scope="module")
def machines(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SshNode]]:
    """Two real OpenSSH servers with four GPUs each, which the portal on `data` may enter."""
    if not sshd.available():
        pytest.skip("needs OpenSSH's sshd (Debian: openssh-server)")
    key = generate_key(data / "ssh" / "id_ed25519")
    with ssh_nodes(tmp_path_factory.mktemp("nodes"), 2, 4, key) as found:
        yield found


@pytest.fixture(scope="module")
def carrel(data: Path, machines: list[SshNode]) -> Iterator[Carrel]:
    """A running portal without the practice lab, which knows no node yet."""
    with Carrel(data) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("needs a browser (Debian: chromium)")
    with chromium() as launched:
        yield launched
