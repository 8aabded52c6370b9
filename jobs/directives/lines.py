"""The `#SBATCH` lines of a script, cut into words as Slurm cuts them.

Seen with the real `sbatch`: only lines that begin with `#SBATCH` count, up to the first line
that is neither blank nor a comment; `#` outside quotes ends a line even within a word; quotes
may begin and end within a word; a backslash takes the next character as it is, but a space
outside quotes still ends the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from jobs.rules import SpecError

MAX_WORDS = 1_000
"""Of all directives together: each is read several times while somebody types."""
_OWN = re.compile(r"#CARREL\s+-")
"""Options that Slurm lacks, which to Slurm are a comment. A comment that only begins so is one."""
_LOOKALIKE = re.compile(r"\s*#\s*sbatch\b", re.IGNORECASE)
_SEPARATORS = re.compile(r"[;&|(){}`]")
_LAUNCHERS = frozenset({"srun", "mpirun", "mpiexec"})
_BEFORE_COMMANDS = frozenset(
    {"then", "do", "else", "elif", "if", "while", "until", "!", "exec", "time", "nohup", "command"}
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True)
class Notice:
    """Something a person should know that is no error. `line` counts from 1; None: no line."""

    field: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        where = self.field if self.line is None else f"line {self.line}: {self.field}"
        return f"{where}: {self.message}"


@dataclass(frozen=True)
class Words:
    """What one directive line says after `#SBATCH` or `#CARREL`, its `marker`."""

    line: int
    words: tuple[str, ...]
    marker: str = "#SBATCH"


def normalized(script: str) -> str:
    """The script with plain newlines: browsers send, and Windows editors write, CRLF."""
    return script.replace("\r\n", "\n")


def directives(script: str) -> tuple[list[Words], list[SpecError], list[Notice]]:
    """Every directive line in words, what can't be cut into words, and what was passed over."""
    found: list[Words] = []
    errors: list[SpecError] = []
    notices: list[Notice] = []
    first_command: int | None = None
    left = MAX_WORDS
    for number, line in enumerate(script.split("\n"), start=1):
        marker = "#CARREL" if _OWN.match(line[:200]) else "#SBATCH"
        if not line.startswith(marker):
            if first_command is None and line.strip() and not line.lstrip().startswith("#"):
                first_command = number
            if first_command is None and number > 1 and _LOOKALIKE.match(line[:200]):
                notices.append(
                    Notice("#SBATCH", "not read: write #SBATCH at the line's start", number)
                )
        elif first_command is not None:
            notices.append(
                Notice(
                    marker,
                    f"not read: directives end at the first command (line {first_command}), "
                    "as in Slurm; move it up",
                    number,
                )
            )
        else:
            try:
                words = tuple(islice(split(line.removeprefix(marker)), left + 1))
            except ValueError as problem:
                errors.append(SpecError(marker, str(problem), number))
                words = ("",)
            else:
                found.append(Words(number, words[:left], marker))
            left -= max(1, len(words))
            if left < 0:
                most = f"at most {MAX_WORDS:,} words of directives are read; leave out the rest"
                errors.append(SpecError("#SBATCH", most, number))
                break
    return found, errors, notices


def split(text: str) -> Iterator[str]:
    """Words of one line. Raises `ValueError` for a quote that is not closed."""
    word: list[str] = []
    begun = False
    quote = ""
    chars = iter(text)
    for char in chars:
        escaped = char == "\\"
        if escaped:
            char = next(chars, "")
        if quote:
            if char == quote and not escaped:
                quote = ""
            else:
                word.append(char)
        elif char.isspace():
            if begun:
                yield "".join(word)
            word, begun = [], False
        elif char in "'\"" and char and not escaped:
            quote, begun = char, True
        elif char == "#" and not escaped:
            break
        else:
            word.append(char)
            begun = True
    if quote:
        raise ValueError(f"the quote {quote} is not closed; close it on the same line")
    if begun:
        yield "".join(word)


def launcher_notices(script: str) -> list[Notice]:
    """Lines that call srun or its like, the first of each: there is nothing for it to talk to."""
    first: dict[str, int] = {}
    for number, line in enumerate(script.split("\n"), start=1):
        if any(name in line for name in _LAUNCHERS) and not line.lstrip().startswith("#"):
            for name in _commands(line):
                first.setdefault(name, number)
    return [
        Notice(
            name,
            "Carrel itself runs the script once per task, on every node of the job; "
            f"call the program without {name}",
            number,
        )
        for name, number in first.items()
        if name in _LAUNCHERS
    ]


def _commands(line: str) -> Iterator[str]:
    for segment in _SEPARATORS.split(line):
        for word in segment.split():
            if word not in _BEFORE_COMMANDS and not _ASSIGNMENT.match(word):
                yield word.rpartition("/")[2]
                break
