"""The verb `collect`: forget ended runs.

Input: `keys`. Output: `collected` and `kept`, lists of keys; kept is what has not ended.
Checkpoints lie elsewhere and stay.
"""

import os

from . import state
from .spool import Run, Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def verb(spool: Spool, request: "dict[str, Any]") -> "dict[str, Any]":
    """Remove the directory of each run that has ended."""
    collected: "list[str]" = []
    kept: "list[str]" = []
    for key in request["keys"]:
        run = spool.run(key)
        phase = state.look(run).phase if os.path.isdir(spool.runs) else "absent"
        if phase == "exited":
            _remove(run)
        (collected if phase in ("exited", "absent") else kept).append(key)
    return {"collected": collected, "kept": kept}


def _remove(run: Run) -> None:
    # Renamed first: a directory half removed would look like a run that was cut off.
    gone = os.path.join(run.spool.path, "collected.%s.%d" % (run.key, os.getpid()))
    try:
        os.rename(run.dir, gone)
        for name in os.listdir(gone):
            os.unlink(os.path.join(gone, name))
        os.rmdir(gone)
    except FileNotFoundError:
        pass  # Somebody else was collecting, too.
