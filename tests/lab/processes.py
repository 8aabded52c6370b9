"""Processes that tests leave behind, found by the directory that they were started for."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
"""Before a command: a test process that is killed leaves it to nobody."""


@contextmanager
def ended_under(directory: Path) -> Iterator[None]:
    """Ends what is still about `directory` afterwards, whatever its state files say of it."""
    try:
        yield
    finally:
        deadline = time.monotonic() + 20
        # Anew each time: who is killed may have had a child just now.
        while (left := _about(directory)) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def _about(directory: Path) -> list[int]:
    """Living processes that name it, or what is in it, in their command line or environment."""
    name, found = os.fsencode(directory) + b"/", []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            if name in words and entry.name != str(os.getpid()):
                found.append(int(entry.name))
    return found
