"""INSERT and UPDATE of many rows, each with values of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection, models


def insert_all(made: Iterable[models.Model]) -> None:
    """Write new rows of one table, by one prepared statement; what they are called is not told."""
    rows = list(made)
    if not rows:
        return
    table = rows[0]._meta
    fields = [field for field in table.concrete_fields if not field.primary_key]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(str(field.column)) for field in fields)
    values = ", ".join(["%s"] * len(fields))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {quote(table.db_table)} ({columns}) VALUES ({values})",  # noqa: S608  # nosec B608
            [[_stored(field, getattr(row, field.attname)) for field in fields] for row in rows],
        )


def update_each(rows: models.QuerySet[Any], changes: Mapping[int, Mapping[str, Any]]) -> None:
    """Write these columns of these rows, both by name; `rows` says which may be written at all.

    One prepared statement for all rows that change the same columns: the CASE of a thousand arms
    that `bulk_update` makes takes long to put together.
    """
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for pk, values in changes.items():
        alike[tuple(values)].append(pk)
    for names, pks in alike.items():
        _update(rows, names, {pk: list(changes[pk].values()) for pk in pks})


def _update(
    rows: models.QuerySet[Any], names: Sequence[str], values: Mapping[int, Sequence[Any]]
) -> None:
    table = rows.model._meta
    fields = [table.get_field(name) for name in names]
    quote = connection.ops.quote_name
    columns = ", ".join(f"{quote(field.column)} = %s" for field in fields)
    only, given = _condition(rows)
    with connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {quote(table.db_table)} SET {columns} "  # noqa: S608  # nosec B608
            f"WHERE {quote(table.pk.column)} = %s AND {only}",
            [
                (*map(_stored, fields, of_row), pk, *given)
                for pk, of_row in values.items()
            ],
        )  # fmt: skip


def _condition(rows: models.QuerySet[Any]) -> tuple[str, Sequence[Any]]:
    """What the query set was filtered by, as SQL and its parameters; of this table alone."""
    if not rows.query.where:
        return "TRUE", ()
    return rows.query.get_compiler(connection=connection).compile(rows.query.where)


def _stored(field: Any, value: Any) -> Any:
    """As Django's own UPDATE would give it to the database."""
    if isinstance(value, models.Model):
        value = value.pk
    return field.get_db_prep_save(value, connection)
