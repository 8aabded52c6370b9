"""SQLite whose writers take turns within a process.

SQLite waits for its lock by sleeping, up to a tenth of a second at a time, and trying again. With
a worker's sixteen threads the lock then lies free most of the time, and the unlucky ones starve
("database is locked"). Waiting for one another here first, they are woken at once; what is left
for SQLite's own waiting is the few other processes.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from django.db.backends.sqlite3 import base

_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's, but a transaction begins when it is its turn.

    After SQLite's own timeout it begins all the same, and SQLite has the last word.
    """

    _turn: threading.Lock | None = None

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
        turn = _turns[str(self.settings_dict["NAME"])]
        if turn.acquire(timeout=self.settings_dict["OPTIONS"].get("timeout", 5)):
            self._turn = turn

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.release()
            self._turn = None
