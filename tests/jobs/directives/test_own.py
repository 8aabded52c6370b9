"""Lines that begin with `#CARREL`: options that Slurm lacks, and to Slurm a comment."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from jobs.directives import parse
from jobs.spec import Keep

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KEEP = "--keep-checkpoints"


def script(*lines: str) -> str:
    return "\n".join(["#!/bin/bash", "#SBATCH -J fine", *lines, "python train.py", ""])


@pytest.mark.parametrize(
    ("line", "keep"),
    [
        (f"#CARREL {KEEP}=last=3", Keep(3)),
        (f"#CARREL\t{KEEP} last=3,every=1000 # and why", Keep(3, 1000)),
        (f"#CARREL   {KEEP}=every=10,last=2", Keep(2, 10)),
        (f"#CARREL {KEEP}=every=10", Keep(1, 10)),
    ],
)
def test_what_is_kept(line: str, keep: Keep) -> None:
    found = parse(script(line), now=NOW)
    assert (found.settings, found.errors) == ({"name": "fine", "keep_checkpoints": keep}, ())


@pytest.mark.parametrize("line", ["#CARREL is fine", "#CARREL", "#CARRELS --x", "# CARREL --x"])
def test_what_only_begins_so_is_a_comment(line: str) -> None:
    found = parse(script(line), now=NOW)
    assert (found.settings, found.errors) == ({"name": "fine"}, ())


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        (f"#CARREL {KEEP}=3", KEEP, "is not of the form last=3"),
        (f"#CARREL {KEEP}=last=3,last=4", KEEP, "is not of the form last=3"),
        (f"#CARREL {KEEP}=last=-1", KEEP, "is not of the form last=3"),
        (f"#CARREL {KEEP}=last=0", KEEP, "1"),
        (f"#CARREL {KEEP}=last=3,every=0", KEEP, "1"),
        (f"#CARREL {KEEP}", KEEP, "needs a value"),
        (f"#SBATCH {KEEP}=last=3", KEEP, "begins with #CARREL"),
        ("#CARREL --time=1:00", "--time", "begins with #SBATCH"),
        ("#CARREL --nope", "--nope", "is not known here"),
        ("#CARREL --keep-checkpoints='last=3", "#CARREL", "is not closed"),
    ],
)
def test_what_is_wrong_is_named(line: str, field: str, words: str) -> None:
    (error,) = parse(script(line), now=NOW).errors
    assert (error.field, error.line) == (field, 3)
    assert words in error.message


def test_below_the_first_command_it_is_not_read() -> None:
    found = parse(f"#!/bin/sh\ntrue\n#CARREL {KEEP}=last=3\n", now=NOW)
    assert found.settings == {}
    assert [(one.field, one.line) for one in found.warnings] == [("#CARREL", 3)]
