"""Work that is killed at any line of some modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any


class Killed(BaseException):
    """Not an `Exception`: nobody catches it, as nobody catches a SIGKILL."""


def at_every_line(work: Callable[[], Any], *modules: ModuleType) -> Iterator[int]:
    """Do `work`, killed before its first line in these modules, then before its second, and so on
    until it gets through. Yields after each kill, with how many lines it had done."""
    files = {module.__file__ for module in modules}
    lines = 0
    while _killed(work, files, lines):
        yield lines
        lines += 1


def _killed(work: Callable[[], Any], files: set[str | None], after: int) -> bool:
    left = after

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            if not left:
                raise Killed
            left -= 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except Killed:
        return True
    finally:
        sys.settrace(before)
    return False
