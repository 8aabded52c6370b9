"""Work that is killed at any line of some modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any

from django.db import connection


class Killed(BaseException):
    """Not an `Exception`: nobody catches it, as nobody catches a SIGKILL."""


def at_every_line(work: Callable[[], Any], *modules: ModuleType) -> Iterator[int]:
    """Do `work`, killed before a line in these modules, then before a later one, and so on until
    it gets through. Yields after each kill, with how many there were before.

    Of lines between which nothing was asked of the database, and no transaction began or ended,
    only the first is taken: there is nothing else that outlives a process killed in between.
    """
    files = {module.__file__ for module in modules}
    kills = 0
    while _killed(work, files, kills):
        yield kills
        kills += 1


def _killed(work: Callable[[], Any], files: set[str | None], after: int) -> bool:
    left, asked, within = after, True, connection.in_atomic_block

    def ask(execute: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal asked
        asked = True
        return execute(*arguments)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left, asked, within
        if frame.f_code.co_filename not in files:
            return None
        inside = connection.in_atomic_block
        if event == "line" and (asked or inside is not within):
            if not left:
                raise Killed
            left, asked, within = left - 1, False, inside
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with connection.execute_wrapper(ask):
            work()
    except Killed:
        return True
    finally:
        sys.settrace(before)
    return False
