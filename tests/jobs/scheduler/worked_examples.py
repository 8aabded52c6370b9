"""The examples of a page in `docs/`, read from its tables and blocks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGE = "scheduling.md"

Row = dict[str, str]


def section(title: str, page: str = PAGE) -> list[str]:
    """The lines below a heading, up to the next one. Exactly one has that title."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    starts = [
        number for number, line in enumerate(lines) if re.fullmatch(r"#+ " + re.escape(title), line)
    ]
    (start,) = starts
    rest = lines[start + 1 :]
    end = next((number for number, line in enumerate(rest) if re.match("#+ ", line)), len(rest))
    return rest[:end]


def table(title: str, page: str = PAGE) -> list[Row]:
    """The rows of the only table below a heading, by the names of its columns."""
    cells = [_cells(line) for line in section(title, page) if line.startswith("|")]
    header, ruler, *rows = cells
    assert set("".join(ruler)) == {"-"}
    assert rows
    return [dict(zip(header, row, strict=True)) for row in rows]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def blocks(title: str) -> Iterator[list[str]]:
    """What stands between fences below a heading, as lines."""
    inside: list[str] | None = None
    for line in section(title):
        if not line.startswith("```"):
            if inside is not None:
                inside.append(line)
        elif inside is None:
            inside = []
        else:
            yield inside
            inside = None


def number(text: str) -> float:
    """`1,234.5`, or `infinite`."""
    return math.inf if text == "infinite" else float(text.replace(",", ""))


def shown(text: str) -> object:
    """Equals every number that is written like this when rounded to as many places."""
    if text == "infinite":
        return math.inf
    places = len(text.partition(".")[2])
    return pytest.approx(number(text), rel=0, abs=0.5000001 * 10**-places)
