"""Everything that goes wrong on the way to a node, and which error says so."""

from __future__ import annotations

import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.nodes.ssh import (
    HostKey,
    SshTransport,
    WeakKey,
    generate_key,
    scan_host_key,
)
from jobs.nodes.transport import (
    ConnectionLost,
    DeadlineExceeded,
    HostKeyChanged,
    LoginRefused,
    NoRoute,
    Refused,
)
from tests.jobs.nodes.faults import HELLO, at, fails, listener, make_host_key
from tests.lab.account import Account
from tests.lab.sshd import Sshd, free_port


def test_a_name_that_does_not_resolve(sshd: Sshd) -> None:
    fails(at(sshd, host="no-such-host.invalid"), NoRoute, "no-such-host.invalid")
    fails(at(sshd, host="a" * 70 + ".example"), NoRoute)


def test_no_way_there(sshd: Sshd) -> None:
    fails(at(sshd, host="255.255.255.255"), NoRoute, "255.255.255.255")


def test_no_packet_comes_back(sshd: Sshd) -> None:
    """A listener whose queue is full: the kernel drops what comes, as a firewall does."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        port = sock.getsockname()[1]
        waiting = [socket.socket() for _ in range(3)]
        for caller in waiting:
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.1", port))
        fails(at(sshd, port=port), NoRoute, f"127.0.0.1:{port}", "1 s")
        for caller in waiting:
            caller.close()


def test_nothing_listens(sshd: Sshd) -> None:
    port = free_port()
    fails(at(sshd, port=port), Refused, f"127.0.0.1:{port}")


def test_it_accepts_but_says_nothing(sshd: Sshd) -> None:
    with listener(b"") as port:
        fails(at(sshd, port=port), DeadlineExceeded, "did not speak SSH")


def test_it_is_no_ssh_server(sshd: Sshd) -> None:
    with listener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        fails(at(sshd, port=port), Refused, "does not speak SSH", "400 Bad Request")
    with listener(b"220 mail ready\r\n", hang_up=True) as port:
        fails(at(sshd, port=port), Refused, "does not speak SSH", "220 mail ready")


def test_too_many_logins_at_once(sshd: Sshd) -> None:
    with listener(b"Exceeded MaxStartups\r\n", hang_up=True) as port:
        fails(at(sshd, port=port), ConnectionLost, "no more logins", "MaxStartups")


def test_it_hangs_up_at_once(sshd: Sshd) -> None:
    with listener(b"", hang_up=True) as port:
        fails(at(sshd, port=port), ConnectionLost, "before the login")


def test_another_host_key(own_sshd: Sshd) -> None:
    address = own_sshd.address()
    own_sshd.stop()
    own_sshd.new_host_key()
    own_sshd.start()
    error = fails(
        SshTransport(address, own_sshd.client_key),
        HostKeyChanged,
        HostKey.parse(address.host_key).fingerprint,
        HostKey.parse(own_sshd.host_key).fingerprint,
    )
    assert "reinstalled" in error.advice
    assert own_sshd.connections_served() == 0


def test_the_pinned_type_of_key_is_gone(scratch: Path, account: Account, own_sshd: Sshd) -> None:
    address = own_sshd.address()
    own_sshd.stop()
    make_host_key(own_sshd, "-t", "ecdsa")
    own_sshd.start()
    fails(SshTransport(address, own_sshd.client_key), HostKeyChanged, "ssh-ed25519")


@pytest.mark.parametrize(("bits", "accepted"), [(2048, False), (3072, True)])
def test_rsa_host_keys(own_sshd: Sshd, bits: int, accepted: bool) -> None:
    own_sshd.stop()
    path = own_sshd.directory / "host_key"
    path.unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "rsa", "-b", str(bits), "-N", "", "-f", str(path)], check=True
    )
    own_sshd.start()
    line = " ".join(path.with_name("host_key.pub").read_text().split()[:2])
    pinned = SshTransport(replace(own_sshd.address(), host_key=line), own_sshd.client_key)
    if accepted:
        assert pinned.run(HELLO).stdout == b"hello\n"
        assert scan_host_key(own_sshd.host, own_sshd.port).line == line
        pinned.close()
    else:
        fails(pinned, WeakKey, "2048")
        with pytest.raises(WeakKey):
            scan_host_key(own_sshd.host, own_sshd.port)


def test_a_server_that_signs_with_sha1_only(scratch: Path, account: Account) -> None:
    options = ("HostKeyAlgorithms ssh-rsa",)
    sshd = Sshd(scratch / "old", options=options, account=account)
    path = sshd.directory / "host_key"
    path.unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "rsa", "-b", "3072", "-N", "", "-f", str(path)], check=True
    )
    line = " ".join(path.with_name("host_key.pub").read_text().split()[:2])
    with sshd:
        transport = SshTransport(replace(sshd.address(), host_key=line), sshd.client_key)
        fails(transport, HostKeyChanged, "ssh-rsa")
        with pytest.raises(Refused, match="no safe algorithm"):
            scan_host_key(sshd.host, sshd.port)


def test_login_refused(sshd: Sshd, tmp_path: Path) -> None:
    stranger = generate_key(tmp_path / "key")
    transport = SshTransport(sshd.address(), stranger)
    error = fails(transport, LoginRefused, sshd.user, "does not accept Carrel's key")
    assert "authorized_keys" in error.advice
    fails(at(sshd, user="no-such-account"), LoginRefused, "no-such-account")


def test_sshd_hangs_up_during_the_login(scratch: Path, account: Account) -> None:
    with Sshd(scratch / "sshd", options=("MaxAuthTries 0",), account=account) as sshd:
        fails(sshd.transport(), LoginRefused, "Too many authentication failures")


def test_login_by_key_is_off(scratch: Path, account: Account) -> None:
    options = ("PubkeyAuthentication no", "PasswordAuthentication yes")
    with Sshd(scratch / "sshd", options=options, account=account) as sshd:
        # The first value of an option counts, and ours says no passwords: both ways are shut.
        fails(sshd.transport(), LoginRefused)


def test_login_needs_more_than_the_key(scratch: Path, account: Account) -> None:
    options = ("AuthenticationMethods publickey,publickey",)
    with Sshd(scratch / "sshd", options=options, account=account) as sshd:
        fails(sshd.transport(), LoginRefused, "asks for more", "publickey")


def test_bastion_faults(sshd: Sshd, own_sshd: Sshd, scratch: Path, account: Account) -> None:
    def through(bastion: Sshd, **changes: object) -> SshTransport:
        address = replace(sshd.address(), jump=(bastion.address(),), **changes)
        return SshTransport(address, bastion.client_key, connect_s=2)

    port = free_port()
    fails(through(sshd, port=port), Refused, f"127.0.0.1:{port}", f"bastion {sshd.address().place}")
    fails(through(sshd, host="no-such-host.invalid"), NoRoute, "no-such-host.invalid", "bastion")
    fails(through(sshd, host_key=own_sshd.host_key), HostKeyChanged, sshd.address().place)
    own_sshd.host_key = sshd.host_key
    fails(through(own_sshd), HostKeyChanged, own_sshd.address().place)
    with listener(b"") as silent:
        fails(through(sshd, port=silent), DeadlineExceeded, "did not speak SSH")
    options = ("AllowTcpForwarding no",)
    with Sshd(
        scratch / "closed", options=options, account=account, client_key=sshd.client_key
    ) as shut:
        fails(through(shut), Refused, "AllowTcpForwarding")


def test_three_hops(sshd: Sshd) -> None:
    hop = sshd.address()
    transport = SshTransport(replace(hop, jump=(hop, hop)), sshd.client_key)
    assert transport.run(HELLO).stdout == b"hello\n"
    transport.close()


def test_scan(sshd: Sshd) -> None:
    found = scan_host_key(sshd.host, sshd.port)
    assert found.line == sshd.host_key
    assert found.fingerprint.startswith("SHA256:")
    bastion = sshd.address()
    assert scan_host_key(sshd.host, sshd.port, jump=(bastion,), key=sshd.client_key) == found
    with pytest.raises(Refused):
        scan_host_key(sshd.host, free_port())
    with pytest.raises(NoRoute):
        scan_host_key("no-such-host.invalid")
