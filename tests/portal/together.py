"""Several things at once, each on a connection of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from portal.actions import schedule

needs_postgresql = pytest.mark.skipif(
    not settings.DATABASES["default"]["ENGINE"].endswith("postgresql"),
    reason="SQLite has one writer at a time",
)


def at_once(*work: Callable[[], object]) -> None:
    """Each in a thread and on a connection of its own; fails where one does."""
    failed: list[Exception] = []
    start = threading.Barrier(len(work))

    def do(one: Callable[[], object]) -> None:
        try:
            start.wait(20)
            one()
        except Exception as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=do, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failed


class Other(threading.Thread):
    """Does something in a transaction of its own; `result` is what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.result: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self.work()
        except Exception as error:
            self.result = error
        finally:
            connection.close()

    def until_it_waits(self) -> Other:
        """Until it has ended or waits for a lock."""
        deadline = time.monotonic() + 20
        while self.is_alive():
            assert time.monotonic() < deadline
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
                if cursor.fetchone()[0]:
                    break
            time.sleep(0.01)
        return self

    def outcome(self) -> Any:
        self.join(20)
        assert not self.is_alive()
        return self.result


def during_the_pass(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> list[Other]:
    """Begins `work` when a pass has taken its snapshot, and lets it get as far as it can."""
    decision, others = schedule.Decision, list[Other]()

    def decide(*given: Any) -> Any:
        others.append(Other(work).until_it_waits())
        return decision(*given)

    monkeypatch.setattr(schedule, "Decision", decide)
    return others
