"""What a page reads anew at each key press must not cost more for being absurd."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from jobs.directives import parse
from jobs.directives.lines import MAX_WORDS

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def errors(*directives: str) -> list[tuple[int | None, str]]:
    lines = "".join(f"#SBATCH {words}\n" for words in directives)
    found = parse(f"#!/bin/bash\n{lines}true\n", now=NOW)
    return [(error.line, error.message) for error in found.errors]


@pytest.mark.parametrize(
    "directives", [["--hold"] * (MAX_WORDS + 1), ["--hold " * (MAX_WORDS + 1)]]
)
def test_words_of_directives_are_counted(directives: list[str]) -> None:
    line, message = errors(*directives)[-1]
    assert message == "at most 1,000 words of directives are read; leave out the rest"
    assert line == len(directives) + 1


def test_so_many_are_read() -> None:
    assert errors(*["--hold"] * MAX_WORDS) == []
    assert errors("--hold " * MAX_WORDS) == []


@pytest.mark.parametrize(
    ("value", "most"),
    [
        ("--array=" + "0-9999," * 2 + "1", "an array may have at most 10,000 tasks"),
        ("--array=" + "1," * 10_000 + "1", "an array may have at most 10,000 tasks"),
        ("--nodelist=" + "n[1-4000]," * 2 + "n1", "may name at most 4,096 nodes"),
        ("--nodelist=n[" + "1-4000," * 2 + "1]", "may name at most 4,096 nodes"),
        ("--dependency=afterok" + ":1" * 1001, "may name at most 1,000 jobs"),
        ("--exclude=n[1-999999999999999999]", "may name at most 4,096 nodes"),
    ],
)
def test_repeats_count_too(value: str, most: str) -> None:
    assert errors(value) == [(2, most)]
