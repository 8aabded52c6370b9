"""Every transport as a fixture: over SSH, through a bastion, on this machine, in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.nodes.local import LocalTransport
from jobs.nodes.ssh import SshTransport
from jobs.nodes.transport import Transport
from tests.jobs.nodes import programs
from tests.lab.fixtures import account, own_sshd, scratch, sshd
from tests.lab.sshd import Sshd

__all__ = ["account", "own_sshd", "scratch", "sshd"]


@pytest.fixture(params=["ssh", "bastion", "local", "memory"])
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    made = make(request)
    yield made
    made.close()


@pytest.fixture(params=["ssh", "bastion", "local"])
def real(request: pytest.FixtureRequest) -> Iterator[Transport]:
    """Those that have processes and a disk."""
    made = make(request)
    yield made
    made.close()


def make(request: pytest.FixtureRequest) -> Transport:
    if request.param == "local":
        return LocalTransport()
    if request.param == "memory":
        return programs.in_memory()
    sshd: Sshd = request.getfixturevalue("sshd")
    jump = (sshd.address(),) if request.param == "bastion" else ()
    return SshTransport(sshd.address(jump=jump), sshd.client_key)
