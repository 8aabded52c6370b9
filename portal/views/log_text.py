"""A log's bytes as HTML: escaped, with terminal colours, and lines as a terminal leaves them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

_CONTROL = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]*)m"  # colours and weight
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # other sequences: the cursor and the like
    r"|\x1b[\]P^_X][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)
_NOT_PRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NORMAL = ""


def to_html(data: bytes) -> SafeString:
    """Text of any bytes: what is no UTF-8 or not printable becomes U+FFFD.

    Of a line that was written over (a progress bar), only the last writing stays.
    """
    text = data.decode("utf-8", "replace")
    lines = [_last_writing(line) for line in text.split("\n")]
    return mark_safe("".join(_coloured("\n".join(lines))))  # noqa: S308 (escaped piece by piece)  # nosec B308, B703


def plain(data: bytes) -> str:
    """The same without colours, as text: a template escapes it."""
    text = "\n".join(map(_last_writing, data.decode("utf-8", "replace").split("\n")))
    return _printable(_CONTROL.sub("", text))


def _last_writing(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]


def _printable(text: str) -> str:
    return _NOT_PRINTABLE.sub(_REPLACEMENT, text)


def _coloured(text: str) -> Iterator[str]:
    classes = _NORMAL
    at = 0
    for found in _CONTROL.finditer(text):
        yield _span(text[at : found.start()], classes)
        at = found.end()
        if found["sgr"] is not None:
            classes = _style(found["sgr"], classes)
    yield _span(text[at:], classes)


def _span(text: str, classes: str) -> str:
    if not text:
        return ""
    safe = escape(_printable(text))
    return f'<span class="{classes}">{safe}</span>' if classes else safe


def _style(codes: str, before: str) -> str:
    """The classes after a colour sequence: one of `ansi-0` to `ansi-15`, and `ansi-bold`."""
    colour = next((word for word in before.split() if word != "ansi-bold"), "")
    bold = "ansi-bold" in before
    numbers = iter(int(code[:4] or 0) for code in codes.replace(":", ";").split(";"))
    for number in numbers:
        if number == 0:
            colour, bold = "", False
        elif number in (1, 22):
            bold = number == 1
        elif 30 <= number <= 37:
            colour = f"ansi-{number - 30}"
        elif 90 <= number <= 97:
            colour = f"ansi-{number - 82}"
        elif number == 39:
            colour = ""
        elif number in (38, 48):
            named = _extended(numbers)
            colour = named if number == 38 else colour
    return " ".join(word for word in (colour, "ansi-bold" if bold else "") if word)


def _extended(numbers: Iterator[int]) -> str:
    """One of 256 colours, of which the first 16 have a class; or red, green and blue, passed by."""
    kind = next(numbers, 0)
    if kind == 5:
        number = next(numbers, 0)
        return f"ansi-{number}" if number < 16 else ""
    if kind == 2:
        for _ in range(3):
            next(numbers, 0)
    return ""
