"""Every row of the database, kept to be put back: quicker than to make a scene anew."""

from __future__ import annotations

import time
from typing import Any

from django.apps import apps
from django.db import connection, transaction


class Rows:
    """As they are when this is made."""

    def __init__(self) -> None:
        models = apps.get_models(include_auto_created=True)
        self._tables = sorted({model._meta.db_table for model in models})
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._columns: dict[str, list[str]] = {}
        with connection.cursor() as cursor:
            for table in self._tables:
                cursor.execute(f'SELECT * FROM "{table}"')
                self._rows[table] = cursor.fetchall()
                self._columns[table] = [column[0] for column in cursor.description]

    @transaction.atomic
    def put_back(self) -> None:
        """What refers to what is looked at when the transaction ends."""
        with connection.cursor() as cursor:
            for table in self._tables:
                cursor.execute(f'DELETE FROM "{table}"')
            for table, rows in self._rows.items():
                if rows:
                    columns = self._columns[table]
                    names = ", ".join(f'"{name}"' for name in columns)
                    marks = ", ".join(["%s"] * len(columns))
                    insert = f'INSERT INTO "{table}" ({names}) VALUES ({marks})'
                    cursor.executemany(insert, rows)


def wait_for_the_dead() -> None:
    """Until the database has seen that those who were killed are gone, and undone what they had
    not finished. SQLite has nobody who would have to see it."""
    if connection.vendor != "postgresql":
        return
    deadline = time.monotonic() + 30
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend' AND xact_start IS NOT NULL"
        " AND pid <> pg_backend_pid()"
    )
    while _count(others):
        assert time.monotonic() < deadline, "transactions of killed workers stay open"
        time.sleep(0.002)


def _count(query: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return int(cursor.fetchone()[0])
