"""Worker processes on the test's database, each killed (SIGKILL) before a step of its own.

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
from django.db import connection

from tests.lab.processes import ENDS_WITH_US
from tests.portal.killed import Steps

ROOT = Path(__file__).resolve().parents[3]
CODE = f"{ROOT / 'portal'}{os.sep}"
"""What writes. `jobs/` is pure: killed in it is killed before the line that called it."""
TELLING = ("broker.py", "celery.py", "hints.py", "live.py")
"""Who tells Celery and Redis."""
COUNT = -1


@dataclass(frozen=True)
class Fate:
    """What became of a worker."""

    killed: bool
    steps: int
    """Of one that was to count: how many it did."""


class Workers:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def work(self, *kill_before: int | None) -> list[Fate]:
        """As many workers at once, each killed before the step of this number; with `COUNT` it
        counts its steps, with None it is left alone."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(kill_before) + "\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        assert told, "the process that forks workers has ended"
        fates = json.loads(told)
        assert all(code in (0, -signal.SIGKILL) for code, _ in fates), "a worker failed, see above"
        return [Fate(code != 0, steps) for code, steps in fates]


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
        did = json.loads(told.read() or "0")
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
        steps = _traced(work, kill_before) if kill_before is not None else work()
        with os.fdopen(tell, "w") as answer:
            json.dump(steps or 0, answer)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _traced(work: Callable[[], Any], kill_before: int) -> int:
    steps, number = Steps(), 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal number
        file = frame.f_code.co_filename
        if not file.startswith(CODE):
            return None
        if event == "line":
            if steps.is_next():
                if number == kill_before:
                    os.kill(os.getpid(), signal.SIGKILL)
                number += 1
            if file.endswith(TELLING):
                steps.tells()
        return trace

    sys.settrace(trace)
    try:
        with connection.execute_wrapper(steps.asks):
            work()
    finally:
        sys.settrace(None)
    return number


if __name__ == "__main__":
    _main(*sys.argv[1:])
