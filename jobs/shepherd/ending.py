"""When a run has to end, and how far its ending has gone."""

import os
import time

from . import processes, signals
from .spool import Run
from .writing import Witness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NEVER = float("inf")
MEMORY_LOOK_S = 1.0
MEMORY_CLOSE_LOOK_S = 0.2
UNSEEN_S = 2.0
ASKED = "asked to stop"


def record(status: int, witness: Witness) -> "dict[str, Any]":
    """For `exit.json`: how the first task that failed ended (0: none did), and which
    checkpoints may be cut off."""
    now = time.time()
    torn = witness.close()
    doubts = witness.doubts
    if status != 0 and not witness.active:
        # It died by itself, and badly: nobody looked at what it was writing.
        doubts = [[now - UNSEEN_S, now]]
    return {
        "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        "ended_at": now,
        "torn": torn,
        "doubts": doubts,
    }


def demands(run: Run) -> "list[tuple[int, float, str]]":
    """What `stop` asked for: signals, how many seconds later all that is left is killed, why."""
    found = []
    stop = run.read("stop.json")
    if stop is not None:
        found.append((stop["signal"], stop["grace_s"], stop.get("why") or ASKED))
    words = (run.link("stop") or "").split()
    if len(words) == 2:
        found.append((int(words[0]), float(words[1]), ASKED))
    return found


class Ending:
    """The run is being ended: why, what it was told, and when all that is left is killed."""

    def __init__(self, cause: str, message: str) -> None:
        self.cause = cause
        self.message = message
        self.kill_at = _NEVER
        self._sent: "set[int]" = set()

    def hears(self, number: int, kill_at: float) -> bool:
        """Note a demand; whether the signal is to be sent. A repeated demand never gives more
        time and never sends a signal twice: to many programs the second one is an order to
        drop everything."""
        if number == signals.SIGKILL:
            kill_at = 0.0
        self.kill_at = min(self.kill_at, kill_at)
        if number in self._sent:
            return False
        self._sent.add(number)
        return True


class Limits:
    """Walltime, its warning, and memory. A walltime of 0 is none."""

    def __init__(self, spec: "dict[str, Any]", now: float) -> None:
        walltime = spec["walltime_s"]
        self.ends_at = now + walltime if walltime > 0 else _NEVER
        self._end_at = self.ends_at
        before = spec["warning_before_s"]
        self._warn_at = self.ends_at - before if before > 0 else _NEVER
        self._memory_mib = spec["memory_mib"]
        self._memory_at = now if self._memory_mib else _NEVER

    def walltime_is_over(self, now: float) -> bool:
        """True once."""
        if now < self._end_at:
            return False
        self._end_at = _NEVER
        return True

    def warning_is_due(self, now: float) -> bool:
        """True once."""
        if now < self._warn_at:
            return False
        self._warn_at = _NEVER
        return True

    def memory_is_due(self, now: float) -> bool:
        """Whether to measure."""
        return now >= self._memory_at

    def measure_memory(self, now: float, pids: "list[int]") -> "float | None":
        """What is used in MiB, if that is over the limit. Looks closer when it comes near."""
        used = processes.memory_mib(pids, self._memory_mib)
        near = used > self._memory_mib / 2
        self._memory_at = now + (MEMORY_CLOSE_LOOK_S if near else MEMORY_LOOK_S)
        return used if used > self._memory_mib else None

    def next_due(self) -> float:
        """When there is something to do."""
        return min(self._end_at, self._warn_at, self._memory_at)
