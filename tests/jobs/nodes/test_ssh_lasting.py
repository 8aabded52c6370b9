"""Connections that break, come back, are shared, and a server that has no room."""

from __future__ import annotations

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs.nodes.ssh import (
    SshTransport,
)
from jobs.nodes.ssh.pool import OPEN_SESSION_S
from jobs.nodes.transport import (
    CommandFailed,
    ConnectionLost,
    DeadlineExceeded,
    Refused,
)
from tests.jobs.nodes import programs
from tests.jobs.nodes.faults import HELLO, until
from tests.jobs.nodes.programs import python
from tests.lab.account import Account
from tests.lab.sshd import Sshd


class Clock:
    """A clock for the back-off that a test turns on by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_killed_in_the_middle_and_back_again(own_sshd: Sshd) -> None:
    transport = own_sshd.transport()
    assert transport.run(HELLO).stdout == b"hello\n"
    followed = transport.follow(python(programs.TICK))
    assert next(followed) == b"tick"
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(transport.run, python(programs.TICK))
        until(lambda: own_sshd.log.read_text().count("Starting session: command") >= 3)
        own_sshd.kill_connections()
        with pytest.raises(ConnectionLost, match="broke"):
            running.result(20)
    with pytest.raises(ConnectionLost):
        list(followed)
    assert transport.run(HELLO).stdout == b"hello\n"
    assert own_sshd.connections_served() == 2
    transport.close()


def test_a_connection_that_died_unused_is_not_noticed_by_the_caller(own_sshd: Sshd) -> None:
    transport = own_sshd.transport()
    transport.run(HELLO)
    own_sshd.kill_connections()
    assert transport.run(HELLO).stdout == b"hello\n"
    transport.close()


def test_a_silent_peer(own_sshd: Sshd) -> None:
    """Frozen: the kernel still acknowledges, so only the probe of a new session notices."""
    transport = own_sshd.transport(connect_s=2)
    transport.run(HELLO)
    own_sshd.freeze()
    try:
        with pytest.raises(DeadlineExceeded, match="did not speak SSH"):
            transport.run(HELLO, timeout_s=OPEN_SESSION_S + 10)
    finally:
        own_sshd.thaw()
    transport.retry_now()
    assert transport.run(HELLO).stdout == b"hello\n"
    transport.close()


def test_frozen_while_a_program_runs(own_sshd: Sshd) -> None:
    transport = own_sshd.transport(connect_s=2)
    lines = transport.follow(python(programs.TICK), silence_s=1)
    assert next(lines) == b"tick"
    own_sshd.freeze()
    try:
        with pytest.raises(DeadlineExceeded, match="said nothing"):
            list(lines)
    finally:
        own_sshd.thaw()
    transport.close()


def test_what_is_left_of_a_connection_that_takes_nothing_more(own_sshd: Sshd) -> None:
    """Its peer is silent, so that only writing tells that it is gone."""
    transport = own_sshd.transport(connect_s=2)
    lines = transport.follow(python(programs.TICK))
    assert next(lines) == b"tick"
    (connection,) = transport._pool._connections
    own_sshd.freeze()
    try:
        connection.wire.sock.shutdown(socket.SHUT_WR)
        lines.close()
        assert (connection.used, connection.retired) == (0, True)
    finally:
        own_sshd.thaw()
    assert transport.run(HELLO).stdout == b"hello\n"
    transport.close()


def test_back_off(own_sshd: Sshd) -> None:
    clock = Clock()
    transport = SshTransport(own_sshd.address(), own_sshd.client_key, clock=clock)
    own_sshd.stop()
    with pytest.raises(Refused):
        transport.run(HELLO)
    own_sshd.start()
    with pytest.raises(Refused):  # the last error again, without a try
        transport.run(HELLO)
    clock.now += 1.3
    assert transport.run(HELLO).stdout == b"hello\n"
    transport.close()


def test_back_off_grows_to_a_cap(own_sshd: Sshd) -> None:
    clock = Clock()
    own_sshd.stop()
    transport = SshTransport(own_sshd.address(), own_sshd.client_key, clock=clock)
    waits = []
    for _ in range(10):
        with pytest.raises(Refused):
            transport.run(HELLO)
        waits.append(transport._pool._retry_at - clock.now)
        clock.now = transport._pool._retry_at
    assert all(0.75 * 2**n <= waits[n] <= 1.25 * 2**n for n in range(6))
    assert all(45 <= wait <= 75 for wait in waits[6:])
    transport.close()


def test_a_person_may_try_at_once(own_sshd: Sshd) -> None:
    transport = SshTransport(own_sshd.address(), own_sshd.client_key, clock=Clock())
    own_sshd.stop()
    with pytest.raises(Refused):
        transport.run(HELLO)
    own_sshd.start()
    transport.retry_now()
    assert transport.run(HELLO).stdout == b"hello\n"
    transport.close()


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_few_sessions_allowed(scratch: Path, account: Account, limit: int) -> None:
    with Sshd(scratch / "sshd", options=(f"MaxSessions {limit}",), account=account) as sshd:
        transport = sshd.transport()
        with ThreadPoolExecutor(20) as threads:
            done = list(threads.map(lambda _: transport.run(HELLO, timeout_s=60), range(60)))
        assert [d.stdout for d in done] == [b"hello\n"] * 60
        assert sshd.connections_served() <= 4
        transport.close()


def test_no_sessions_allowed(scratch: Path, account: Account) -> None:
    with Sshd(scratch / "sshd", options=("MaxSessions 0",), account=account) as sshd:
        transport = sshd.transport()
        with pytest.raises(CommandFailed, match="MaxSessions"):
            transport.run(HELLO, timeout_s=1)
        transport.close()


def test_one_connection_is_kept_and_shared(own_sshd: Sshd) -> None:
    transport = own_sshd.transport()
    for _ in range(20):
        transport.run(HELLO)
    assert own_sshd.connections_served() == 1
    transport.close()
    until(lambda: len(own_sshd.processes()) == 1)


def test_closing_ends_what_runs(own_sshd: Sshd) -> None:
    transport = own_sshd.transport()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(transport.run, ["sleep", "600"])
        until(lambda: "Starting session" in own_sshd.log.read_text())
        transport.close()
        with pytest.raises(ConnectionLost):
            running.result(20)


def test_closing_ends_what_runs_beside_a_missed_deadline(own_sshd: Sshd) -> None:
    transport = own_sshd.transport()
    lines = transport.follow(python(programs.TICK))
    assert next(lines) == b"tick"
    with pytest.raises(DeadlineExceeded):
        transport.run(["sleep", "600"], timeout_s=0.3)
    assert next(lines) == b"tick"  # it goes on, on the connection that is not used anew
    assert transport.run(HELLO).stdout == b"hello\n"
    assert own_sshd.connections_served() == 2
    transport.close()
    with pytest.raises(ConnectionLost):
        list(lines)


def test_after_a_fork_each_has_connections_of_its_own(own_sshd: Sshd) -> None:
    transport = own_sshd.transport()
    transport.run(HELLO)
    child = os.fork()
    if child == 0:
        # A lock that another thread held at this moment is never given back here.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            os._exit(0 if transport.run(HELLO).stdout == b"hello\n" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert transport.run(HELLO).stdout == b"hello\n"
    assert own_sshd.connections_served() == 2
    transport.close()
