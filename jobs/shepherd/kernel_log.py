"""GPU errors in the kernel's log: its records as `/dev/kmsg` gives them, else what `dmesg` prints.

Only lines that speak of GPUs or NVSwitches leave the node; what they mean is decided elsewhere.
"""

import os
import time

from . import programs
from .spool import Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DEVICE = "/dev/kmsg"
OWN = "kmsg"
"""In the spool directory: a practice node has a log of its own, as several share one kernel."""
WITHIN_S = 5.0
FIRST_S = 3600.0
"""How far back a node is asked that never was: what is older may have been mended long ago."""
MAX_BYTES = 32 << 20
RECORD_BYTES = 16384
"""More than the kernel ever gives for one record; with less room it refuses."""
MOST_LINES = 200
LONGEST_LINE = 500
_WORDS = (b"NVRM: Xid", b"SXid", b"fallen off the bus")


def read(spool: Spool, boot_id: "str | None", after_us: "int | None") -> "dict[str, Any]":
    """The lines about GPUs that are newer than `after_us`, microseconds since that boot.

    After another boot all of this one's are new; without a boot id, those of the last hour.
    `stamp_us` is that of the newest line of all. `why`: in words, if nothing could be read.
    """
    after = after_us if after_us is not None and boot_id == spool.boot_id else -1
    if boot_id is None:
        after = int((time.clock_gettime(time.CLOCK_MONOTONIC) - FIRST_S) * 1e6)
    lines, why = _lines(spool)
    newest, found = after, []
    for stamp, text in lines:
        newest = max(newest, stamp)
        if stamp > after and any(word in text for word in _WORDS):
            found.append(text[:LONGEST_LINE].decode("utf-8", "replace"))
    return {"stamp_us": max(newest, 0), "lines": found[-MOST_LINES:], "why": why}


def _lines(spool: Spool) -> "tuple[Iterator[tuple[int, bytes]], str]":
    own = os.path.join(spool.path, OWN)
    try:
        return records(_drained(own if os.path.exists(own) else DEVICE)), ""
    except OSError as error:
        why = error.strerror or str(error)
    path = programs.find("dmesg")
    text = programs.ask([path, "-r"], WITHIN_S)[0] if path is not None else None
    if text is None:
        return iter(()), why
    return printed(text.encode("utf-8", "replace")), ""


def _drained(path: str) -> bytes:
    """All that is there now, without waiting for more; raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    chunks, left, until = [], MAX_BYTES, time.monotonic() + WITHIN_S
    try:
        while left > 0 and time.monotonic() < until:
            try:
                chunk = os.read(fd, RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # Records were overwritten before we came to them; the next one follows.
            if not chunk:
                break
            chunks.append(chunk)
            left -= len(chunk)
    finally:
        os.close(fd)
    return b"".join(chunks)


def records(text: bytes) -> "Iterator[tuple[int, bytes]]":
    """Stamp and text of each `6,339,5140900,-;text`; the kernel's own only, whose facility is 0:
    others may be written by whoever may write there."""
    for line in text.split(b"\n"):
        head, semicolon, words = line.partition(b";")
        fields = head.split(b",")
        if not semicolon or len(fields) < 3 or not (fields[0] + fields[2]).isdigit():
            continue
        if fields[0] and fields[2] and int(fields[0]) >> 3 == 0:
            yield int(fields[2]), words


def printed(text: bytes) -> "Iterator[tuple[int, bytes]]":
    """The same of `<6>[    5.140900] text`, as `dmesg -r` prints it."""
    for line in text.split(b"\n"):
        number, bracket, rest = line.partition(b">[")
        seconds, end, words = rest.partition(b"]")
        if bracket and end and number[1:].isdigit() and int(number[1:]) >> 3 == 0:
            try:
                stamp = int(float(seconds) * 1e6)
            except ValueError:
                continue
            yield stamp, words.strip()
