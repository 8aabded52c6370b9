"""A practice machine's processes: who they are, and ending every one of them.

They are known by an entry in their first environment, and by descent from one that has it, for
a program may start others with an environment of its own.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

PROC = Path("/proc")


def of_machine(mark: str) -> set[int]:
    """The pids of all processes that carry `mark` (`NAME=value`), and of their descendants."""
    found: set[int] = set()
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = _parent(entry)
            marked = mark.encode() in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # gone since, or another user's
        if parent is None:
            continue
        children.setdefault(parent, []).append(int(entry.name))
        if marked:
            found.add(int(entry.name))
    todo = list(found)
    while todo:
        fresh = set(children.get(todo.pop(), [])) - found
        found |= fresh
        todo += fresh
    return found


def switch_off(mark: str, *, within_s: float = 5) -> bool:
    """Kill all of a machine's processes, as a power cut does. False if some are still there."""
    deadline = time.monotonic() + within_s
    seen: set[int] = set()
    # Stopped first: while any runs, it could start another behind our back.
    while fresh := of_machine(mark) - seen:
        _signal_all(fresh, signal.SIGSTOP)
        seen |= fresh
    while seen:
        _signal_all(seen, signal.SIGKILL)
        time.sleep(0.02)
        seen = of_machine(mark)
        if time.monotonic() > deadline:
            return not seen
    return True


def _signal_all(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _parent(entry: Path) -> int | None:
    """The parent's pid; None for a process that is dead and only waits to be collected."""
    # The name in brackets may itself hold spaces and brackets: count from the last one.
    state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
    return None if state in "ZX" else int(parent)
