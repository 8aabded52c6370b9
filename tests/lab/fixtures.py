"""Fixtures over the lab's parts; a conftest takes them by `from tests.lab.fixtures import …`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.account import Account, test_account
from tests.lab.hosts import Lab
from tests.lab.hosts import available as lab_missing
from tests.lab.processes import ended_under
from tests.lab.sshd import Sshd
from tests.lab.sshd import available as has_sshd


@contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that every account may use; pytest's own are private."""
    path = Path(tempfile.mkdtemp(prefix="carrel-open-"))
    path.chmod(0o777)
    try:
        with ended_under(path):
            yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture(scope="session")
def account() -> Iterator[Account]:
    """Whom the servers let in: an ordinary account."""
    with test_account() as made:
        yield made


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory for one test that every account may use."""
    with open_directory() as path:
        yield path


@pytest.fixture(scope="session")
def sshd(account: Account) -> Iterator[Sshd]:
    """One real server for all tests that do not harm it."""
    if not has_sshd():
        pytest.skip("needs OpenSSH's sshd (Debian: openssh-server)")
    with open_directory() as path, Sshd(path / "sshd", account=account) as server:
        yield server


@pytest.fixture
def own_sshd(scratch: Path, account: Account) -> Iterator[Sshd]:
    """A server for a test that stops, freezes or breaks it."""
    if not has_sshd():
        pytest.skip("needs OpenSSH's sshd (Debian: openssh-server)")
    with Sshd(scratch / "sshd", account=account) as server:
        yield server


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Three hosts of four GPUs for the tests of one module."""
    reason = lab_missing()
    if reason:
        pytest.skip(f"the lab {reason}")
    with Lab() as made:
        yield made
