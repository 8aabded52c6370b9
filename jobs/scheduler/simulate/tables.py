"""Tables of recorded workloads: CSV with a header, plain or gzip, and what is wrong with them."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened

MOST = 1e10
"""Of a number in a table, unless told otherwise; as a time in seconds, more than 300 years."""
_GZIP = b"\x1f\x8b"


class TableError(ValueError):
    """A file that is not what it should be; the text names the file, the line and the column."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line. Every question raises `TableError` when the line has no good answer."""

    file: str
    line: int
    values: dict[str, str]

    def text(self, column: str) -> str:
        """As it stands there, without blanks around it."""
        return (self.values[column] or "").strip()

    def word(self, column: str) -> str:
        """The same, and not empty."""
        found = self.text(column)
        if not found:
            raise self.error(column, "is empty")
        return found

    def number(self, column: str, least: float = 0, most: float = MOST) -> float:
        """A number within these bounds."""
        found = self.text(column)
        try:
            value = float(found)
        except ValueError:
            raise self.error(column, f"must be a number, not {shortened(found)}") from None
        if not least <= value <= most:
            bounds = f"from {least:g} to {most:,.0f}"
            raise self.error(column, f"must be a number {bounds}, not {shortened(found)}")
        return value

    def whole(self, column: str, least: int = 0, most: float = MOST) -> int:
        """A number without a fraction; one that is written as 3.0 is 3."""
        value = self.number(column, least, most)
        if value != int(value):
            raise self.error(column, f"must be a whole number, not {shortened(self.text(column))}")
        return int(value)

    def error(self, column: str, problem: str) -> TableError:
        """What is wrong with one value."""
        return TableError(f"{self.file}, line {self.line}, column {column}: {problem}")


@dataclass(frozen=True)
class Table:
    """A whole file."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def require(self, *columns: str) -> None:
        """Raises `TableError` for the first column that is missing."""
        for column in columns:
            if column not in self.columns:
                have = ", ".join(self.columns)
                raise TableError(f"{self.file}, line 1: no column {column!r}; there are {have}")


def read_table(path: Path) -> Table:
    """Raises `TableError` for a file that cannot be read, or is no table."""
    name = path.name
    lines = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
    try:
        columns = _header(name, next(lines, []))
        numbered = ((lines.line_num, values) for values in lines)
        return Table(name, columns, tuple(_rows(name, columns, numbered)))
    except csv.Error as error:
        raise TableError(f"{name}, line {lines.line_num}: {error}") from error


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if content[:2] == _GZIP else content).decode("utf-8-sig")
    except FileNotFoundError:
        raise TableError(f"{path}: there is no such file") from None
    except UnicodeDecodeError:
        raise TableError(f"{path}: is no text in UTF-8") from None
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise TableError(f"{path}: cannot be read: {error}") from error


def _header(name: str, values: list[str]) -> tuple[str, ...]:
    columns = tuple(column.strip() for column in values)
    if not any(columns):
        raise TableError(f"{name}, line 1: there is no header with the names of the columns")
    for column, times in Counter(columns).items():
        if column and times > 1:
            raise TableError(f"{name}, line 1: there are {times} columns {column!r}")
    return columns


def _rows(
    name: str, columns: tuple[str, ...], lines: Iterable[tuple[int, list[str]]]
) -> Iterator[Row]:
    for number, values in lines:
        if not values:
            continue
        if len(values) != len(columns):
            have = f"{len(values)} values for {len(columns)} columns"
            raise TableError(f"{name}, line {number}: there are {have}")
        yield Row(name, number, dict(zip(columns, values, strict=True)))
