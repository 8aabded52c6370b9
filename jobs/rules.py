"""What one field of a request may hold: a check for each, raising `SpecError`.

`jobs.spec` applies them; `jobs.directives` uses some earlier, where it still knows the line.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime

MAX_SCRIPT_BYTES = 1_000_000
MAX_NAME_CHARS = 200
MAX_NODES = 4_096
MAX_GPUS_PER_NODE = 256
MAX_SHARDS = 1_000
MAX_TASKS_PER_NODE = 1_024
MAX_CPUS_PER_TASK = 4_096
MAX_MEMORY_MIB = 64 * 1024 * 1024
MAX_WALLTIME_S = 366 * 86_400
LAST_YEAR = 9_000
"""In which anything may be asked for: dates end soon after, and some zones are ahead."""
MAX_ARRAY_TASKS = 10_000
MAX_ARRAY_INDEX = 4_000_000
MAX_DEPENDENCIES = 1_000
MAX_NICE = 1_000
"""A nice value goes from -1000, to the front, to 1000."""
MAX_KEPT = 1_000
"""A node tells of no more checkpoints of a run."""
MAX_STEP = 10**15
MAX_PATH_CHARS = 4_096
MAX_VARIABLES = 1_000
MAX_VARIABLE_BYTES = 128 * 1024 - 1
"""Of NAME=VALUE: Linux takes no longer string into a program's environment."""
MAX_ENVIRONMENT_BYTES = 1_000_000
MAX_SIGNAL = 64
MAX_WARNING_S = 65_535
PATTERN_LETTERS = "jAaxuNnt"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+/@ -]{0,99}\Z")
_PATTERN = re.compile(r"%(\d{0,2}[" + PATTERN_LETTERS + "%])?")
_OURS = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
    }
)
_OUR_PREFIXES = ("SLURM_", "SLURMD_", "CARREL_", "CUDA_MPS_")
_NOT_TEXT = frozenset({"Cc", "Cs", "Zl", "Zp"})
_UNSEEN = frozenset({"Cf", "Zs"})
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Turn the direction of what follows, so that a name could pose as another."""


class SpecError(ValueError):
    """One thing wrong with a request: which field, and what would be right.

    `line` is the script's line number (from 1) when a directive there is to blame.
    """

    def __init__(self, field: str, message: str, line: int | None = None) -> None:
        where = field if line is None else f"line {line}: {field}"
        super().__init__(f"{where}: {message}")
        self.field = field
        self.message = message
        self.line = line


def is_variable_name(name: str) -> bool:
    """Whether an environment variable may be called this."""
    return _VARIABLE.match(name) is not None


def is_set_by_carrel(name: str) -> bool:
    """Whether Carrel gives this environment variable its value, so that nobody else may."""
    return name in _OURS or name.startswith(_OUR_PREFIXES)


def check_count(field: str, value: int, low: int, high: int) -> None:
    """A whole number within bounds (True is not one)."""
    if type(value) is not int or not low <= value <= high:
        raise SpecError(field, f"must be a whole number from {low:,} to {high:,}, not {value!r}")


def check_line(field: str, value: str, longest: int) -> None:
    """One line of text, in any language."""
    if len(value) > longest:
        raise SpecError(field, f"has {len(value):,} characters; at most {longest:,} are allowed")
    if any(unicodedata.category(char) in _NOT_TEXT or char in _BIDI for char in value):
        raise SpecError(field, "must be one line without control characters")


def check_words(field: str, values: tuple[str, ...]) -> None:
    """Names of nodes, features or GPU models."""
    for value in values:
        if not _WORD.match(value):
            raise SpecError(
                field, f"{value[:60]!r} is not a name; use letters, digits, '.', '_', '-'"
            )


def check_path(field: str, value: str) -> None:
    """Something that a file could be called."""
    if not _encodable(value) or any(char in value for char in "\0\n\r"):
        raise SpecError(field, "must be one line of text without NUL bytes")
    if len(value) > MAX_PATH_CHARS:
        raise SpecError(field, f"has {len(value):,} characters; at most {MAX_PATH_CHARS:,} fit")


def _encodable(value: str) -> bool:
    """Lone surrogates have no bytes, so no file and no program could take them."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


def check_name(name: str) -> None:
    """A job's name, of which something is to be seen."""
    if all(unicodedata.category(char) in _UNSEEN for char in name):
        raise SpecError("name", "must not be empty")
    check_line("name", name, MAX_NAME_CHARS)


def check_script(script: str) -> None:
    """A script that can be written to a file and executed."""
    if "\0" in script:
        raise SpecError("script", "has a NUL byte; a script is text")
    if not _encodable(script):
        raise SpecError("script", "has characters that cannot be written as UTF-8")
    size = len(script.encode())
    if size > MAX_SCRIPT_BYTES:
        raise SpecError("script", f"has {size:,} bytes; at most {MAX_SCRIPT_BYTES:,} are allowed")
    if not script.strip():
        raise SpecError("script", "must not be empty")
    if script.startswith("#!") and not script.partition("\n")[0][2:].strip():
        raise SpecError("script", "#! must be followed by an interpreter, as in #!/bin/bash")
    if "\r\n" in script:
        raise SpecError("script", "has Windows line ends (CRLF); use plain newlines")


def check_workdir(workdir: str) -> None:
    """An absolute path, one in the home directory, or nothing."""
    check_path("workdir", workdir)
    if workdir and not workdir.startswith(("/", "~/")) and workdir != "~":
        raise SpecError("workdir", f"must start with / or ~/ or be empty, not {workdir[:60]!r}")


def check_environment(environment: tuple[tuple[str, str], ...]) -> None:
    """All variables together."""
    if len(environment) > MAX_VARIABLES:
        raise SpecError("environment", f"may have at most {MAX_VARIABLES:,} variables")
    names: set[str] = set()
    total = 0
    for name, value in environment:
        check_variable(name, value)
        if name in names:
            raise SpecError("environment", f"{name} is given twice; give it once")
        names.add(name)
        total += len(name) + len(value.encode()) + 2
    if total > MAX_ENVIRONMENT_BYTES:
        raise SpecError("environment", f"may have at most {MAX_ENVIRONMENT_BYTES:,} bytes in all")


def check_variable(name: str, value: str) -> None:
    """Raise `SpecError` unless a person may give this environment variable this value."""
    if not is_variable_name(name):
        raise SpecError(
            "environment",
            f"{name[:80]!r} is not a variable's name; use letters, digits and '_', no digit first",
        )
    if is_set_by_carrel(name):
        raise SpecError(
            "environment", f"{name[:80]} is set by Carrel; leave it out, or export it in the script"
        )
    if "\0" in value or not _encodable(value):
        raise SpecError("environment", f"the value of {name[:80]} must be text without NUL bytes")
    if len(name) + 1 + len(value.encode()) > MAX_VARIABLE_BYTES:
        raise SpecError("environment", f"the value of {name[:80]} must be shorter than 128 KiB")


def check_times(begin: datetime | None, deadline: datetime | None, walltime_s: int) -> None:
    """Begin and deadline: with a time zone, and far enough apart."""
    for field_name, moment in (("begin", begin), ("deadline", deadline)):
        if moment is not None and moment.utcoffset() is None:
            raise SpecError(field_name, "needs a time zone")
    if begin and deadline and deadline.timestamp() - begin.timestamp() < walltime_s:
        raise SpecError("deadline", "leaves no room for the walltime after the begin time")


def check_pattern(field_name: str, pattern: str | None) -> None:
    """A file name pattern as in Slurm."""
    if pattern is None:
        return
    check_path(field_name, pattern)
    if not pattern:
        raise SpecError(field_name, "must name a file")
    for found in _PATTERN.finditer(pattern):
        if not found.group(1):
            known = ", ".join(f"%{letter}" for letter in PATTERN_LETTERS)
            raise SpecError(
                field_name,
                f"{pattern[found.start() : found.start() + 2]!r} is not known here; "
                f"use {known}, or %% for a percent sign",
            )
