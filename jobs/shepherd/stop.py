"""The verb `stop`: begin to end runs, also ones whose launch has not arrived yet.

Input: `stops`, a list of `key`, `signal`, `grace_s`, `why`. Output: `stopped`, a list of `key` and
the `phase` it was found in. A repeat of the same stop changes nothing.
"""

import os

from . import processes, signals, state
from .spool import NEVER, Run, Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_WHY = 400


def verb(spool: Spool, request: "dict[str, Any]") -> "dict[str, Any]":
    """Stop each of them."""
    spool.prepare()
    answers = []
    for stop in request["stops"]:
        run = spool.run(stop["key"])
        number, grace_s = int(stop.get("signal", 15)), float(stop.get("grace_s", 30))
        # A line of the log, whatever people are called.
        why = " ".join(str(stop.get("why", "")).split())[:LONGEST_WHY]
        try:
            phase = _stop(run, number, grace_s, why)
        except OSError:
            phase = "unknown"  # The others are stopped all the same.
        answers.append({"key": run.key, "phase": phase})
    return {"stopped": answers}


def _stop(run: Run, number: int, grace_s: float, why: str) -> str:
    if not 0 < number < signals.MOST or grace_s < 0:
        raise ValueError("stop %s: no signal %d, or a negative grace" % (run.key, number))
    try:
        os.mkdir(run.dir, 0o700)
    except FileExistsError:
        pass
    # Whoever takes `begun` first decides: us, and then a launch starts nothing, or the minder.
    if run.link("begun") is None:
        # Unless its directory was removed while it ran: then nothing else tells of it.
        if processes.end_marked(run.dir):
            return "unknown"
        run.take("begun", NEVER + "stopped")
    seen = state.look(run)
    if seen.phase == "running":
        # Written before we look for the minder again: it reads this when it has begun.
        try:
            run.write("stop.json", {"signal": number, "grace_s": grace_s, "why": why})
        except OSError:
            # The disk is full, perhaps by this very run: a link needs no room on it.
            run.note("stop", "%d %r" % (number, grace_s))
        seen = state.look(run)
        if seen.minder is not None:
            processes.send(seen.minder, signals.SIGUSR1)
    return seen.phase
