"""`manage.py nodes` where nobody is there to be asked, against real SSH servers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from jobs.nodes.ssh import HostKey
from portal import reach
from portal.models import Node, Partition
from tests.lab.sshd import Sshd, available

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(not available(), reason="needs OpenSSH's sshd (Debian: openssh-server)"),
]


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path / "sshd") as server:
        yield server


def add(server: Sshd, *more: str) -> str:
    told = io.StringIO()
    call_command(
        "nodes", "add", server.host, "--user", server.user, "--port", str(server.port),
        "--name", "new-1", *more, stdout=told,
    )  # fmt: skip
    return told.getvalue()


def test_without_anybody_to_answer_nothing_is_added(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(CommandError, match="--fingerprint SHA256"):
        add(sshd)
    assert not Node.objects.exists()


def test_a_fingerprint_given_is_the_answer(sshd: Sshd) -> None:
    fingerprint = HostKey.parse(sshd.host_key).fingerprint
    with pytest.raises(CommandError, match="new-1 is added, but"):
        # The server lets another key in than the portal's.
        add(sshd, "--fingerprint", "SHA256:other", "--fingerprint", fingerprint)
    node = Node.objects.get()
    reach.forget(node.pk)
    assert node.host_key == sshd.host_key


def test_another_fingerprint_is_refused(sshd: Sshd) -> None:
    with pytest.raises(CommandError, match="that is not SHA256:other; nothing was added"):
        add(sshd, "--fingerprint", "SHA256:other")
    assert not Node.objects.exists()


def test_the_practice_labs_partition_is_refused(sshd: Sshd) -> None:
    Partition.objects.create(name="practice")
    fingerprint = HostKey.parse(sshd.host_key).fingerprint
    with pytest.raises(CommandError, match="is the practice lab's"):
        add(sshd, "--fingerprint", fingerprint, "--partition", "practice")
    assert not Node.objects.exists()
