"""One at a time of each kind of work on each node, in this process.

A node that hangs holds up whoever asks it, for as long as the deadline allows. Without turns the
hints of half a minute would wait for it one beside the other, until no thread is left for others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_again: dict[tuple[str, int], bool] = {}
"""Work under way, and whether it was asked for anew since it began."""
_lock = threading.Lock()


def take(kind: str, node_id: int, work: Callable[[], None]) -> None:
    """Do it; if it is just being done, let who does it do it once more, and return at once."""
    key = (kind, node_id)
    with _lock:
        if key in _again:
            _again[key] = True
            return
        _again[key] = False
    try:
        while True:
            work()
            with _lock:
                if not _again[key]:
                    del _again[key]
                    return
                _again[key] = False
    except BaseException:
        with _lock:
            del _again[key]
        raise
