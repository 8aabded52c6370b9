"""What is to happen after the commit, once, however often it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import transaction

T = TypeVar("T", bound=Callable[[], object])


def commit(call: T) -> T:
    """Have `call` called after the present transaction, or now when there is none.

    The one returned is who will be called: an equal one, asked for before in the same savepoint,
    takes the new one's place. A rollback forgets it.
    """
    connection = transaction.get_connection()
    if connection.in_atomic_block:
        within = set(connection.savepoint_ids)
        for savepoints, earlier, _ in connection.run_on_commit:
            if savepoints == within and earlier == call:
                return earlier
    transaction.on_commit(call)
    return call
