"""Tables of recorded workloads: CSV with a header, plain or gzip, and what is wrong with them."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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

    def number(self, column: str, least: float = 0) -> float:
        """A finite number, at least so large."""
        found = self.text(column)
        try:
            value = float(found)
        except ValueError:
            raise self.error(column, f"must be a number, not {found!r}") from None
        if not least <= value < float("inf"):
            raise self.error(column, f"must be a number from {least:g}, not {found!r}")
        return value

    def whole(self, column: str, least: int = 0) -> int:
        """A number without a fraction; one that is written as 3.0 is 3."""
        value = self.number(column, least)
        if value != int(value):
            raise self.error(column, f"must be a whole number, not {self.text(column)!r}")
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
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if content[:2] == _GZIP else content).decode("utf-8-sig")
    except FileNotFoundError:
        raise TableError(f"{path}: there is no such file") from None
    except UnicodeDecodeError:
        raise TableError(f"{path}: is no text in UTF-8") from None
    except (OSError, EOFError) as error:
        raise TableError(f"{path}: cannot be read: {error}") from error
    lines = csv.reader(io.StringIO(text, newline=""))
    try:
        columns = tuple(column.strip() for column in next(lines, []))
        if not any(columns):
            raise TableError(f"{name}, line 1: there is no header with the names of the columns")
        return Table(name, columns, tuple(_rows(name, columns, lines)))
    except csv.Error as error:
        raise TableError(f"{name}, line {lines.line_num}: {error}") from error


def _rows(name: str, columns: tuple[str, ...], lines: Iterator[list[str]]) -> Iterator[Row]:
    number = 1
    for values in lines:
        number += 1
        if not values:
            continue
        if len(values) != len(columns):
            have = f"{len(values)} values for {len(columns)} columns"
            raise TableError(f"{name}, line {number}: there are {have}")
        yield Row(name, number, dict(zip(columns, values, strict=True)))
