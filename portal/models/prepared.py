"""Queries that are asked again and again, made once.

To make the SQL of a query takes Django several times as long as a database takes to answer it. A
pass, a launch and a look ask the same few dozen questions many times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from django.db import connection, models

T = TypeVar("T")
Make = Callable[..., models.QuerySet[Any]]
Row = tuple[Any, ...]
_ABSENT = -(2**62)
"""Stands for an id; no row has one like it."""


class _Query(Generic[T]):
    def __init__(self, make: Make, read: Callable[[Any], T] = tuple) -> None:  # type: ignore[assignment]
        self._make = make
        self._read = read
        self._statements: dict[int, _Statement[T]] = {}


class Prepared(_Query[T]):
    """A query that is always the same, with what is made of each row that `values_list` gives."""

    def rows(self) -> list[T]:
        """As they are now. Of a row that has not changed it is the same object as last time."""
        found = self._statements.get(0)
        if found is None:
            found = self._statements[0] = _Statement(self._make(), self._read)
        return found.rows(found.parameters)


class PreparedFor(_Query[T]):
    """The same of a query about some rows, made with a list of their ids."""

    def rows(self, ids: Iterable[int]) -> list[T]:
        """Of these, in the order of the query."""
        wanted = sorted(set(ids))
        if not wanted:
            return []
        # Filled up to a power of two: a few statements serve any number of ids.
        number = 1 << (len(wanted) - 1).bit_length()
        wanted += wanted[-1:] * (number - len(wanted))
        statement = self._of(number)
        given = [
            wanted[value - _ABSENT] if _is_place(value, number) else value
            for value in statement.parameters
        ]
        return statement.rows(given)

    def _of(self, number: int) -> _Statement[T]:
        known = self._statements.get(number)
        if known is None:
            places = [_ABSENT + place for place in range(number)]
            known = self._statements[number] = _Statement(self._make(places), self._read)
        return known


def _is_place(value: object, number: int) -> bool:
    return isinstance(value, int) and _ABSENT <= value < _ABSENT + number


class _Statement(Generic[T]):
    """A query's SQL, and what becomes of each row of the answer."""

    def __init__(self, query: models.QuerySet[Any], read: Callable[[Any], T]) -> None:
        self._compiler = query.query.get_compiler(connection=connection)
        self._sql, self.parameters = self._compiler.as_sql()
        columns = self._compiler.select[: self._compiler.col_count]
        self._converters = self._compiler.get_converters([column for column, _, _ in columns])
        self._read = read
        self._kept: dict[Row, T] = {}

    def rows(self, parameters: Sequence[Any]) -> list[T]:
        with connection.cursor() as cursor:
            cursor.execute(self._sql, parameters)
            rows: list[Row] = cursor.fetchall()
        # Another thread may ask at the same time: each works with the dictionary it has found.
        before, now = self._kept, dict[Row, T]()
        for row in rows:
            now[row] = before[row] if row in before else self._made(row)
        self._kept = now
        return [now[row] for row in rows]

    def _made(self, row: Row) -> T:
        (converted,) = self._compiler.apply_converters([row], self._converters)
        return self._read(converted)
