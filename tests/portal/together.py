"""Several things at once, each on a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from django.db import connection


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
