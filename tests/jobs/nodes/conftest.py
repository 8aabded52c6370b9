from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.account import Account, test_account
from tests.lab.sshd import Sshd, available


@pytest.fixture(scope="session")
def account() -> Iterator[Account]:
    """Whom the servers let in: an ordinary account."""
    with test_account() as made:
        yield made


@pytest.fixture(scope="session")
def scratch_of_session() -> Iterator[Path]:
    """A directory that every account may use; pytest's own are private."""
    with open_directory() as path:
        yield path


@pytest.fixture
def scratch() -> Iterator[Path]:
    """The same, for one test."""
    with open_directory() as path:
        yield path


@contextmanager
def open_directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="carrel-test-"))
    path.chmod(0o777)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture(scope="session")
def sshd(scratch_of_session: Path, account: Account) -> Iterator[Sshd]:
    """One for all tests that do not harm it."""
    if not available():
        pytest.skip("needs OpenSSH's sshd (Debian: openssh-server)")
    with Sshd(scratch_of_session / "sshd", account=account) as server:
        yield server


@pytest.fixture
def own_sshd(scratch: Path, account: Account) -> Iterator[Sshd]:
    """One for a test that stops, freezes or breaks it."""
    if not available():
        pytest.skip("needs OpenSSH's sshd (Debian: openssh-server)")
    with Sshd(scratch / "sshd", account=account) as server:
        yield server
