"""Work that is killed at any line of some modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any

from django.db import connection


class Killed(BaseException):
    """Not an `Exception`: nobody catches it, as nobody catches a SIGKILL."""


class Steps:
    """Tells the lines before which a kill leaves something else behind than before the last: those
    that come next when something was asked of the database, or a transaction began or ended."""

    def __init__(self) -> None:
        self._leaves_more, self._inside = True, connection.in_atomic_block

    def asks(self, execute: Callable[..., Any], *about: Any) -> Any:
        """Around what is asked of the database: for `connection.execute_wrapper`."""
        self.tells()
        return execute(*about)

    def tells(self) -> None:
        """Somebody else was told something that outlives the process."""
        self._leaves_more = True

    def is_next(self) -> bool:
        """Whether the line that comes now is one of them; asked at every line."""
        inside = connection.in_atomic_block
        found = self._leaves_more or inside is not self._inside
        self._leaves_more, self._inside = False, inside
        return found


def at_every_line(work: Callable[[], Any], *modules: ModuleType) -> Iterator[int]:
    """Do `work`, killed before a line in these modules, then before a later one, and so on until
    it gets through. Yields after each kill, with how many there were before.

    Of lines between which nothing happens that outlives a killed process only the first is taken.
    """
    files = {module.__file__ for module in modules}
    kills = 0
    while _killed(work, files, kills):
        yield kills
        kills += 1


def _killed(work: Callable[[], Any], files: set[str | None], after: int) -> bool:
    left, steps = after, Steps()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if event == "line" and steps.is_next():
            if not left:
                raise Killed
            left -= 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with connection.execute_wrapper(steps.asks):
            work()
    except Killed:
        return True
    finally:
        sys.settrace(before)
    return False
