"""Looking for words in a log: range by range, within a bound of bytes, time and matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from portal.queries.log_window import Read

CHUNK = 1024 * 1024
CONTEXT = 200
"""Bytes of a match's line shown before and after it."""
MAX_MATCHES = 200
MAX_BYTES = 256 * 1024 * 1024
MAX_SECONDS = 8.0
MAX_NEEDLE = 200


@dataclass(frozen=True)
class Match:
    """One line that holds the words; `offset` is where in the log they begin."""

    offset: int
    line: int
    """Its number in the log, from 1."""
    before: bytes
    found: bytes
    after: bytes


@dataclass(frozen=True)
class Found:
    """The matches up to byte `reached` of `size`, in line `line`; the search can go on there."""

    matches: tuple[Match, ...]
    reached: int
    line: int
    size: int

    @property
    def finished(self) -> bool:
        return self.reached >= self.size


def find(
    read: Read,
    needle: bytes,
    *,
    offset: int = 0,
    line: int = 1,
    clock: Callable[[], float] = monotonic,
) -> Found:
    """Lines with `needle` (letters A-Z in either case), from `offset` on, which is in line `line`.

    Raises `jobs.nodes.transport.NodeError` when the log cannot be read.
    """
    needle = needle.lower()
    deadline = clock() + MAX_SECONDS
    matches: list[Match] = []
    kept, at, seen = b"", offset, offset
    while True:
        part = read(at, CHUNK)
        buffer, base = kept + part.data, at - len(kept)
        at = part.offset + len(part.data)
        last = at >= part.size or not part.data
        # A match near the buffer's end waits for the bytes behind it.
        limit = len(buffer) if last else max(0, len(buffer) - CONTEXT - len(needle))
        done = _collect(buffer, base, needle, range(seen - base, limit), line, matches)
        line += buffer.count(b"\n", seen - base, done)
        seen = base + done
        if last and len(matches) < MAX_MATCHES:
            return Found(tuple(matches), part.size, line, part.size)
        if len(matches) >= MAX_MATCHES or at - offset >= MAX_BYTES or clock() >= deadline:
            return Found(tuple(matches), seen, line, part.size)
        # What was looked through stays only as the context of a later match.
        kept = buffer[max(0, done - CONTEXT) :]


def _collect(
    buffer: bytes, base: int, needle: bytes, where: range, line: int, matches: list[Match]
) -> int:
    """Add the matches that begin within `where`, which begins in line `line`.

    Returns where the next search is to begin.
    """
    lowered = buffer.lower()
    at = counted = where.start
    while len(matches) < MAX_MATCHES:
        hit = lowered.find(needle, at)
        if hit < 0 or hit >= where.stop:
            return max(at, where.stop)
        line += buffer.count(b"\n", counted, hit)
        counted = hit
        end = hit + len(needle)
        line_start = max(buffer.rfind(b"\n", 0, hit) + 1, hit - CONTEXT)
        line_end = buffer.find(b"\n", end)
        line_end = len(buffer) if line_end < 0 else line_end
        found = buffer[line_start:hit], buffer[hit:end], buffer[end : min(line_end, end + CONTEXT)]
        matches.append(Match(base + hit, line, *found))
        at = max(end, line_end)
    return at
