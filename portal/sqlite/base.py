"""SQLite whose writers take turns.

SQLite waits for its lock by sleeping, up to a tenth of a second at a time, and trying again. With
a worker's sixteen threads and a web process beside it the lock then lies free most of the time,
and the unlucky ones starve ("database is locked"). Here the threads of a process wait for one
another and are woken at once, and processes look at a lock file every millisecond.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from typing import Any

from django.db.backends.sqlite3 import base

EVERY_S = 0.001


class _Turn:
    """One database's turn: a lock among this process's threads, then one among processes.

    Who waits for the latter holds a second one meanwhile, that of being next: else the threads of
    a busy process would hand the turn on to one another and never let it go.
    """

    def __init__(self, path: str) -> None:
        self._threads = threading.Lock()
        # Open files of this process's own: flock(2) belongs to the open file.
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._next = os.open(f"{path}.next", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._process = os.getpid()

    @property
    def ours(self) -> bool:
        """False in a forked child, which shares its parent's open file."""
        return self._process == os.getpid()

    def take(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        if not self._threads.acquire(timeout=timeout_s):
            return False
        if _lock(self._next, deadline):
            taken = _lock(self._file, deadline)
            fcntl.flock(self._next, fcntl.LOCK_UN)
            if taken:
                return True
        self._threads.release()
        return False

    def end(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._threads.release()


def _lock(file: int, deadline: float) -> bool:
    """flock(2), not for ever: whoever has it may have been stopped."""
    while time.monotonic() < deadline:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(EVERY_S)
    return False


_turns: dict[str, _Turn] = {}
_making = threading.Lock()


def _turn_of(name: str) -> _Turn:
    with _making:
        kept = _turns.get(name)
        if kept is None or not kept.ours:
            kept = _turns[name] = _Turn(f"{name}.turn")
        return kept


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's, but a transaction begins when it is its turn.

    After SQLite's own timeout it begins all the same, and SQLite has the last word.
    """

    _turn: _Turn | None = None

    def is_usable(self) -> bool:
        """Asked after an error: a new connection costs less than to find out."""
        return False

    def _start_transaction_under_autocommit(self) -> None:
        self._take_turn()
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._end_turn()
            raise

    def _commit(self) -> Any:
        try:
            return super()._commit()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _take_turn(self) -> None:
        if self._turn is not None or self.is_in_memory_db():
            return
        turn = _turn_of(str(self.settings_dict["NAME"]))
        if turn.take(self.settings_dict["OPTIONS"].get("timeout", 5)):
            self._turn = turn

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.end()
