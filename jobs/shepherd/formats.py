"""Whether a file of a known format is all there, told by its structure. Nothing in it is loaded
or run, and little of it is read: what is not at its ends has to be believed.

Of a file that names no length of its own (an old pickle, say) nothing can be proven: it passes.
"""

import os
import stat

from . import wire

ZIPPED = (".pt", ".pth", ".ckpt", ".bin", ".npz")
"""What `torch.save` and `numpy.savez` are given for names. Since PyTorch 1.6 a zip archive, before
that a row of pickles; https://pytorch.org/docs/stable/notes/serialization.html"""
SAFETENSORS = (".safetensors",)
MAX_DIRECTORY = 64 << 20
"""Bytes of a zip's central directory or of a safetensors' header that are read; a longer one is
only measured."""
MAX_LOCAL = 2000
"""Members of a zip whose own headers are looked at."""
_TAIL = 22 + 65535
_FULL = 0xFFFFFFFF


class NotWhole(Exception):
    """What is wrong, in words that go on from the file's name: `is empty`."""


def check(path: str) -> None:
    """Raises NotWhole, and OSError when it cannot be read."""
    name = path.lower()
    if not name.endswith(ZIPPED + SAFETENSORS):
        return
    # Without waiting: a job may have put a pipe there.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return
        if not found.st_size:
            raise NotWhole("is empty")
        if name.endswith(SAFETENSORS):
            _safetensors(fd, found.st_size)
            return
        start = os.pread(fd, 64, 0)
        if not start.strip(b"\0"):
            raise NotWhole("begins with zeros, as a file does that was never written out")
        if b"PK\3\4".startswith(start[:4]):
            _zip(fd, found.st_size)
    finally:
        os.close(fd)


def _number(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(data[at : at + length], "little")


def _zip(fd: int, size: int) -> None:
    """PKWARE's APPNOTE.TXT, 4.3: members, then the central directory, then its end record, with
    larger numbers (zip64) in a record of its own before that."""
    start, length, count = _zip_end(fd, size)
    if length > MAX_DIRECTORY:
        return
    members = _members(os.pread(fd, length, start), count)
    members.sort()
    ends = [offset for offset, _ in members[1:]] + [start]
    for (offset, packed), end in zip(members, ends):
        if offset + 30 + packed > end:
            raise NotWhole("is damaged: a part of it is longer than its place")
    for offset, _ in members[:MAX_LOCAL]:
        if os.pread(fd, 4, offset) != b"PK\3\4":
            raise NotWhole("is damaged: a part of it does not begin where it should")


def _zip_end(fd: int, size: int) -> "tuple[int, int, int]":
    """Where the central directory starts, its length, and how many members it names."""
    first = max(0, size - _TAIL)
    tail = os.pread(fd, size - first, first)
    at = tail.rfind(b"PK\5\6")
    while at >= 0 and at + 22 + _number(tail, at + 20, 2) != len(tail):
        at = tail.rfind(b"PK\5\6", 0, at)
    if at < 0:
        raise NotWhole("is cut off: the zip archive that it is has no end")
    count, length, start = (_number(tail, at + 10, 2), _number(tail, at + 12, 4),
                            _number(tail, at + 16, 4))  # fmt: skip
    end = first + at
    if at >= 20 and tail[at - 20 : at - 16] == b"PK\6\7":
        end = _number(tail, at - 12, 8)
        record = os.pread(fd, 56, end) if end < size else b""
        if record[:4] != b"PK\6\6":
            raise NotWhole("is damaged: the end of its zip archive makes no sense")
        count, length, start = (_number(record, 32, 8), _number(record, 40, 8),
                                _number(record, 48, 8))  # fmt: skip
    if start + length != end:
        raise NotWhole("is cut off: its zip archive has another length than it says")
    return start, length, count


def _members(directory: bytes, count: int) -> "list[tuple[int, int]]":
    """Of each member the offset of its header and its packed size."""
    found: "list[tuple[int, int]]" = []
    at = 0
    while directory[at : at + 4] == b"PK\1\2" and len(found) < count:
        names, extras, comments = (_number(directory, at + place, 2) for place in (28, 30, 32))
        extra = directory[at + 46 + names : at + 46 + names + extras]
        found.append(_place(directory[at : at + 46], extra))
        at += 46 + names + extras + comments
    if at != len(directory) or len(found) != count:
        raise NotWhole("is damaged: the directory of its zip archive makes no sense")
    return found


def _place(header: bytes, extra: bytes) -> "tuple[int, int]":
    size, packed, offset = _number(header, 24, 4), _number(header, 20, 4), _number(header, 42, 4)
    large = b""
    while len(extra) >= 4:
        length = _number(extra, 2, 2)
        if _number(extra, 0, 2) == 1:
            large = extra[4 : 4 + length]
        extra = extra[4 + length :]
    # Only numbers that do not fit are there, in this order (APPNOTE.TXT 4.5.3).
    if size == _FULL:
        large = large[8:]
    if packed == _FULL:
        packed, large = _number(large, 0, 8), large[8:]
    if offset == _FULL:
        offset = _number(large, 0, 8)
    return offset, packed


def _safetensors(fd: int, size: int) -> None:
    """https://github.com/huggingface/safetensors#format: the header's length in 8 bytes, the
    header as JSON, then the tensors, which lie one after the other up to the file's end."""
    length = _number(os.pread(fd, 8, 0), 0, 8)
    if size < 8 or 8 + length > size:
        raise NotWhole("is cut off: its header is not all there")
    if not length:
        raise NotWhole("begins with zeros, as a file does that was never written out")
    if length > MAX_DIRECTORY:
        return
    at = 0
    for begin, end in sorted(_offsets(os.pread(fd, length, 8))):
        if begin != at or end < begin:
            raise NotWhole("is damaged: its tensors do not lie one after the other")
        at = end
    if 8 + length + at > size:
        missing = 8 + length + at - size
        raise NotWhole("is cut off: %d of its bytes are missing" % missing)
    if 8 + length + at < size:
        raise NotWhole("is damaged: it is longer than its tensors")


def _offsets(header: bytes) -> "list[list[int]]":
    try:
        tensors = wire.loads(header.decode("utf-8"))
        found = [tensors[name]["data_offsets"] for name in tensors if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise NotWhole("is damaged: its header makes no sense") from None
    if any(type(pair) is not list or [type(one) for one in pair] != [int, int] for pair in found):
        raise NotWhole("is damaged: its header makes no sense")
    return found
