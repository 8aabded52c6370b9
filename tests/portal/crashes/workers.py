"""Worker processes on the test's database, each killed (SIGKILL) before a line of its own.

Starting Python and Django anew for each would take a second. So one process has read all code and
forks a worker whenever it is told to; it never has a connection of its own.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

import django
from django.conf import settings

from tests.lab.processes import ENDS_WITH_US

ROOT = Path(__file__).resolve().parents[3]
CODE = f"{ROOT / 'portal'}{os.sep}"
"""What writes. `jobs/` is pure: killed in it is killed before the line that called it."""
COUNT = -1


@dataclass(frozen=True)
class Fate:
    """What became of a worker."""

    killed: bool
    turns: tuple[int, ...]
    """Of one that was to count: the numbers of the first and the last time of each line."""


class Workers:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def work(self, *kill_before: int | None) -> list[Fate]:
        """As many workers at once, each killed before the line of this number that it comes to;
        with `COUNT` it counts its lines, with None it is left alone."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(kill_before) + "\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        assert told, "the process that forks workers has ended"
        fates = json.loads(told)
        assert all(code in (0, -signal.SIGKILL) for code, _ in fates), "a worker failed, see above"
        return [Fate(code != 0, tuple(turns)) for code, turns in fates]


@contextmanager
def workers(work: str, database: str) -> Iterator[Workers]:
    """They do `work`, named as in `package.module:function`."""
    process = subprocess.Popen(
        [*ENDS_WITH_US, sys.executable, "-m", __name__, work, database],
        cwd=ROOT, env=os.environ | {"DJANGO_SETTINGS_MODULE": "portal.settings"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield Workers(process)
    finally:
        process.kill()
        process.wait()


def _main(work: str, database: str) -> None:
    settings.DATABASES["default"]["NAME"] = database
    django.setup()
    module, _, name = work.partition(":")
    function = getattr(importlib.import_module(module), name)
    for line in sys.stdin:
        print(json.dumps(_at_once(function, json.loads(line))), flush=True)


def _at_once(work: Callable[[], Any], kill_before: Sequence[int | None]) -> list[Any]:
    gate, opened = os.pipe()
    begun = [_fork(work, line, gate, opened) for line in kill_before]
    os.close(gate)
    os.close(opened)
    fates = []
    for pid, told in begun:
        did = json.loads(told.read() or "[]")
        told.close()
        fates.append((os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), did))
    return fates


def _fork(
    work: Callable[[], Any], kill_before: int | None, gate: int, opened: int
) -> tuple[int, IO[str]]:
    told, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell)
        return pid, os.fdopen(told)
    code = 1
    try:
        os.close(opened)
        os.read(gate, 1)  # until all are there
        turns = _traced(work, kill_before) if kill_before is not None else work()
        with os.fdopen(tell, "w") as answer:
            json.dump(turns or [], answer)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _traced(work: Callable[[], Any], kill_before: int) -> list[int]:
    first: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], int] = {}
    number = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal number
        if not frame.f_code.co_filename.startswith(CODE):
            return None
        if event == "line":
            if number == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)
            line = frame.f_code.co_filename, frame.f_lineno
            first.setdefault(line, number)
            last[line] = number
            number += 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return sorted({*first.values(), *last.values()})


if __name__ == "__main__":
    _main(*sys.argv[1:])
