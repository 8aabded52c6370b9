from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.engines.ssh import ShepherdEngine
from jobs.nodes.local import LocalTransport
from tests.lab.account import Account, test_account
from tests.lab.sshd import Sshd, available


@pytest.fixture(scope="session")
def account() -> Iterator[Account]:
    with test_account() as made:
        yield made


@pytest.fixture(scope="session")
def sshd(account: Account) -> Iterator[Sshd]:
    if not available():
        pytest.skip("needs OpenSSH's sshd (Debian: openssh-server)")
    directory = Path(tempfile.mkdtemp(prefix="carrel-test-"))
    with Sshd(directory, account=account) as server:
        yield server
    shutil.rmtree(directory)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory on the node, which is this machine, for any account."""
    path = Path(tempfile.mkdtemp(prefix="carrel-test-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=["ssh", "local"])
def engine(request: pytest.FixtureRequest, place: Path) -> Iterator[ShepherdEngine]:
    """Every engine that can be had here, each on a node without any run."""
    if request.param == "ssh":
        sshd: Sshd = request.getfixturevalue("sshd")
        made = ShepherdEngine(sshd.transport(), f"{place}/spool")
    else:
        made = ShepherdEngine(LocalTransport(), f"{place}/spool")
    yield made
    made.close()
