"""One scheduling pass at a time, and none while something is changed that what it starts must keep
to.

The database excludes them, not Redis: losing Redis must not let two in. SQLite's immediate
transactions exclude each other already.
"""

from __future__ import annotations

from django.db import connection

KEY = 0x6361_7272
"""Of PostgreSQL's advisory lock; the present transaction holds it to its end."""


def begin() -> bool:
    """Whether this transaction may make a pass: nobody else is at it."""
    return _ask("SELECT pg_try_advisory_xact_lock(%s)")


def wait() -> None:
    """Return when no pass is under way; none begins before this transaction's end."""
    _ask("SELECT pg_advisory_xact_lock(%s) IS NOT NULL")


def _ask(question: str) -> bool:
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute(question, [KEY])
        return bool(cursor.fetchone()[0])
