"""The verb `read`: parts of logs.

Input: `ranges`, a list of `key`, `offset` (negative: from the end), `length`.
Output: `ranges`, in the same order: `key`, `offset`, `data` (base64), `size` of the whole log.
"""

import binascii
import os

from .spool import Run, Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_BYTES = 1 << 20


def verb(spool: Spool, request: "dict[str, Any]") -> "dict[str, Any]":
    """Read each of them; a run without a log has an empty one."""
    return {
        "ranges": [
            _read(spool.run(part["key"]), int(part["offset"]), int(part["length"]))
            for part in request["ranges"]
        ]
    }


def _read(run: Run, offset: int, length: int) -> "dict[str, Any]":
    data, size = b"", 0
    try:
        # Without waiting: a job may have put a pipe there.
        fd = os.open(run.log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        offset = 0
    else:
        try:
            size = os.fstat(fd).st_size
            offset = max(0, size + offset) if offset < 0 else min(offset, size)
            length = max(0, min(length, MAX_BYTES, size - offset))
            data = os.pread(fd, length, offset)
        finally:
            os.close(fd)
    text = binascii.b2a_base64(data, newline=False).decode("ascii")
    return {"key": run.key, "offset": offset, "data": text, "size": size}
