"""Warm connections of one login and the sessions on them.

sshd allows ten sessions a connection (MaxSessions) and counts a closed one for a moment longer,
so a connection carries at most four; for more at once, more connections are opened and closed
again when they idle. A failure to connect starts a back-off, during which calls fail at once
with the last error: a worker never waits for a node that is known to be down.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import paramiko

from jobs.nodes.ssh.connect import hang_up
from jobs.nodes.ssh.wire import Connect, Deadline, Wire
from jobs.nodes.transport import CommandFailed, ConnectionLost, DeadlineExceeded, NodeError

SESSIONS_PER_CONNECTION = 4
MAX_CONNECTIONS = 4
OPEN_SESSION_S = 3.0
IDLE_S = 30.0
BACKOFF_FIRST_S = 1.0
BACKOFF_CAP_S = 60.0


class _Rejected(Exception):
    """The server has no room for a session just now."""


class _Dead(Exception):
    """The connection is gone or its peer is silent. Nothing was asked of the node yet."""


class Connection:
    """Wires to a node, the last one signed in there; `used` counts the sessions taken."""

    def __init__(self, wires: list[Wire], opened_at: float) -> None:
        self.wires = wires
        self.used = 0
        self.retired = False
        self.crowded_until = 0.0
        self.idle_since = opened_at

    @property
    def wire(self) -> Wire:
        """The node's own."""
        return self.wires[-1]

    def usable(self, now: float) -> bool:
        """There is room for one more session."""
        return (
            not self.retired
            and self.used < SESSIONS_PER_CONNECTION
            and now >= self.crowded_until
            and self.wire.is_active()
        )

    def open_session(self) -> paramiko.Channel:
        """A raw session channel. The short limit is what notices a peer that went silent:
        keepalives never do.
        """
        asked_at = time.monotonic()
        try:
            return self.wire.open_session(timeout=OPEN_SESSION_S)
        except (paramiko.SSHException, EOFError, OSError) as error:
            late = time.monotonic() - asked_at >= OPEN_SESSION_S
            if late or not self.wire.is_active():
                raise _Dead from error
            raise _Rejected from error


class Pool:
    """Hands out sessions to any number of threads."""

    def __init__(self, connect: Connect, place: str, clock: Callable[[], float]) -> None:
        self._connect = connect
        self._place = place
        self._clock = clock
        self._changed = threading.Condition()
        self._connections: list[Connection] = []
        self._opening = False
        self._failures = 0
        self._retry_at = 0.0
        self._last_error: NodeError | None = None
        self._pid = os.getpid()

    @contextmanager
    def session(self, wait_s: float) -> Iterator[paramiko.Channel]:
        """A session for one program; waits at most `wait_s` for room, connecting not counted."""
        connection, channel = self._open(Deadline(wait_s))
        try:
            yield channel
        except (DeadlineExceeded, ConnectionLost):
            # The next call shall find out on a fresh connection whether the node still answers.
            connection.retired = True
            raise
        finally:
            try:
                channel.close()
            except (paramiko.SSHException, EOFError, OSError):
                # The connection went first: its sessions are closed with it.
                connection.retired = True
            self._give_back(connection)

    def retry_now(self) -> None:
        """Forget the back-off: somebody asked for a try."""
        with self._changed:
            self._failures, self._retry_at, self._last_error = 0, 0.0, None

    def close(self) -> None:
        """Close every connection; sessions in use end with `ConnectionLost`."""
        self.retry_now()
        with self._changed:
            connections, self._connections = self._connections, []
            self._changed.notify_all()
        for connection in connections:
            connection.retired = True
            hang_up(connection.wires)

    def _open(self, deadline: Deadline) -> tuple[Connection, paramiko.Channel]:
        while True:
            connection, fresh = self._take(deadline)
            try:
                return connection, connection.open_session()
            except _Rejected:
                connection.crowded_until = self._clock() + 0.05
                self._give_back(connection)
                self._wait_for_room(deadline)
            except _Dead:
                self._retire_all()
                self._give_back(connection)
                if fresh:
                    error = ConnectionLost(f"{self._place} hung up right after the login.")
                    with self._changed:
                        self._back_off(error)
                    raise error from None
            except BaseException:
                self._give_back(connection)
                raise

    def _take(self, deadline: Deadline) -> tuple[Connection, bool]:
        """A connection with room, and whether it was opened for this call."""
        self._leave_parents_connections()
        with self._changed:
            while True:
                now = self._clock()
                for connection in self._connections:
                    if connection.usable(now):
                        connection.used += 1
                        return connection, False
                self._drop_unusable()
                if self._may_open(now):
                    self._opening = True
                    break
                if not self._changed.wait(min(deadline.left, 0.05)) and deadline.left <= 0:
                    raise DeadlineExceeded(
                        f"No free session on {self._place} within {deadline.seconds:g} s."
                    )
        return self._open_connection(), True

    def _may_open(self, now: float) -> bool:
        """Whether the caller shall connect. Raises the last error while backing off."""
        alive = [c for c in self._connections if not c.retired]
        if self._opening or len(alive) >= MAX_CONNECTIONS:
            return False
        if self._last_error is not None and now < self._retry_at:
            if alive:
                return False  # those that live will have room again
            raise type(self._last_error)(self._last_error.message)
        return True

    def _open_connection(self) -> Connection:
        try:
            connection = Connection(self._connect(), self._clock())
        except BaseException as error:
            with self._changed:
                self._opening = False
                if isinstance(error, NodeError):
                    self._back_off(error)
                self._changed.notify_all()
            raise
        with self._changed:
            self._opening = False
            self._failures, self._retry_at, self._last_error = 0, 0.0, None
            connection.used = 1
            self._connections.append(connection)
            self._changed.notify_all()
        return connection

    def _back_off(self, error: NodeError) -> None:
        delay = min(BACKOFF_CAP_S, BACKOFF_FIRST_S * 2.0 ** min(self._failures, 16))
        self._failures += 1
        self._last_error = error
        # Jitter, so that a rack that comes back is not met by all at the same moment.
        self._retry_at = self._clock() + delay * random.uniform(0.75, 1.25)  # noqa: S311

    def _give_back(self, connection: Connection) -> None:
        with self._changed:
            now = self._clock()
            connection.used -= 1
            connection.idle_since = now
            over = [c for c in self._connections[1:] if not c.used and now - c.idle_since > IDLE_S]
            if connection.retired and not connection.used:
                over.append(connection)
            self._connections = [c for c in self._connections if c not in over]
            self._changed.notify_all()
        for old in over:
            hang_up(old.wires)

    def _wait_for_room(self, deadline: Deadline) -> None:
        if deadline.left <= 0:
            raise CommandFailed(
                f"{self._place} rejects sessions; see MaxSessions in its sshd_config."
            )
        with self._changed:
            self._changed.wait(min(0.05, deadline.left))

    def _drop_unusable(self) -> None:
        """Let go of connections that ended by themselves or were retired and are not in use."""
        for connection in self._connections:
            if not connection.wire.is_active():
                connection.retired = True
        gone = [c for c in self._connections if c.retired and not c.used]
        self._connections = [c for c in self._connections if c not in gone]
        for connection in gone:
            hang_up(connection.wires)

    def _retire_all(self) -> None:
        """A peer that went silent took every connection with it: do not try them one by one."""
        with self._changed:
            for connection in self._connections:
                connection.retired = True
            self._changed.notify_all()

    def _leave_parents_connections(self) -> None:
        """After a fork the sockets are the parent's: writing to them would break its sessions."""
        if self._pid == os.getpid():
            return
        connections, self._connections = self._connections, []
        self._changed, self._opening, self._pid = threading.Condition(), False, os.getpid()
        for connection in connections:
            for wire in reversed(connection.wires):
                wire.atfork()
