"""Part of a run's log cut at line ends, so that a page can show it and go on from there.

Only ranges are ever read, whatever the log's size: a page asks for the bytes it shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobs.engines.contract import LogRange
from portal.models import Allocation
from portal.queries import logs

WINDOW = 64 * 1024
"""Bytes shown at first, and at each "earlier"."""
STEP = 256 * 1024
"""Bytes brought at once while following."""
LONGEST_OPEN_LINE = 32 * 1024
"""A line without end that is longer is shown in parts."""

Read = Callable[[int, int], LogRange]
"""(offset, length) -> range; a negative offset counts from the end."""


@dataclass(frozen=True)
class Window:
    """Bytes `start` to `next` of a log of `size` bytes, and the line begun after them.

    `open_line` has no end yet: whoever shows it replaces it by what `since(next)` brings.
    """

    start: int
    next: int
    size: int
    lines: bytes
    open_line: bytes

    @property
    def end(self) -> int:
        """Behind the last byte shown."""
        return self.next + len(self.open_line)

    @property
    def more(self) -> bool:
        """Whether the log goes on right now."""
        return self.end < self.size


class LogGone(Exception):
    """The archive no longer has what it kept."""

    message = "The log is no longer where it was kept."
    advice = "Its file was removed from Carrel's archive; nothing brings it back."


def reader(allocation: Allocation) -> Read:
    """Reads this allocation's log. Its calls raise `LogGone` and `NodeError`."""

    def read(offset: int, length: int) -> LogRange:
        try:
            return logs.read(allocation=allocation, offset=offset, length=length)
        except FileNotFoundError as error:
            if not allocation.log_kept:
                raise
            raise LogGone(str(error)) from error

    return read


def tail(read: Read, length: int = WINDOW) -> Window:
    """The log's last lines."""
    found = read(-length, length)
    return _window(found, skip=_first_line(found.data) if found.offset > 0 else 0)


def since(read: Read, offset: int, length: int = STEP) -> Window:
    """What follows `offset`, which is a line's start (a window's `next`)."""
    return _window(read(offset, length), skip=0)


def before(read: Read, offset: int, length: int = WINDOW) -> Window:
    """The lines that end at `offset` (a window's `start`)."""
    start = max(0, offset - length)
    found = read(start, max(0, offset - start))
    skip = _first_line(found.data) if start > 0 else 0
    lines = found.data[skip:]
    return Window(found.offset + skip, found.offset + len(found.data), found.size, lines, b"")


def around(read: Read, offset: int, length: int = WINDOW) -> Window:
    """The lines on both sides of `offset`, which lies anywhere in a line."""
    start = max(0, offset - length // 2)
    found = read(start, length)
    skip = min(_first_line(found.data), offset - start) if start > 0 else 0
    return _window(found, skip=skip)


def _window(found: LogRange, *, skip: int) -> Window:
    data = found.data[skip:]
    start = found.offset + skip
    cut = data.rfind(b"\n") + 1
    if len(data) - cut > LONGEST_OPEN_LINE:
        cut = _cut_open_line(data, cut)
    return Window(start, start + cut, found.size, data[:cut], data[cut:])


def _cut_open_line(data: bytes, cut: int) -> int:
    """Where to part a line that does not end: at a carriage return, else between letters."""
    # A return at the very end may be half of a CRLF.
    overwritten = data.rfind(b"\r", cut, len(data) - 1) + 1
    return overwritten or _letter_start(data, len(data))


def _first_line(data: bytes) -> int:
    """Where the first whole line begins; where there is none, the first whole letter."""
    end = data.find(b"\n") + 1
    if 0 < end < len(data):
        return end
    return next((i for i, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)


def _letter_start(data: bytes, end: int) -> int:
    """The start of the letter that may be cut off at `end`: UTF-8 takes up to four bytes."""
    for back in range(1, min(4, end) + 1):
        byte = data[end - back]
        if byte & 0xC0 == 0xC0:
            return end - back
        if byte & 0x80 == 0:
            break
    return end
