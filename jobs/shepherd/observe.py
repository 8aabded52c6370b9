"""The verb `observe`: one look at the runs, their checkpoints, the GPUs and the machine.

Input: `keys`, and what else is wanted: `gpus`, `system`, `checkpoints` (true or false); `lease`,
a grant or none; `fence`, the keys of those that are to end with the lease from now on.
Output: the fields of `jobs.events.Observation`; a log's tail is base64.
"""

import binascii
import os
import time

from . import checkpoints, gpus, lease, processes, signals, state
from .spool import Run, Spool, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WHOLE_LOG_BYTES = 64 * 1024
_MPS = "/tmp/nvidia-mps/control"  # nosec B108: only looked at
"""Where CUDA programs look for the daemon of its Multi-Process Service unless told otherwise."""


def verb(spool: Spool, request: "dict[str, Any]") -> "dict[str, Any]":
    """Look at everything that is asked for."""
    problems: "list[str]" = []
    clock = lease.clock()
    try:
        lease.Lease(spool).take_in(request.get("lease"))
    except OSError as error:
        problems.append("the lease cannot be prolonged: %s" % error)
    wanted = request.get("fence") or ()
    cards = gpus.Question() if request.get("gpus") else None
    runs = []
    found: "list[dict[str, Any]]" = []
    minders: "dict[int, str]" = {}
    for key in request["keys"]:
        run = spool.run(key)
        seen = _look(run)
        if key in wanted:
            _want_fence(run, seen)
        runs.append(_run(run, seen))
        if seen.minder is not None:
            minders[seen.minder] = key
        if request.get("checkpoints") and seen.started is not None:
            try:
                found.extend(checkpoints.listing(run, seen, time.time()))
            except (OSError, ValueError, TypeError, AttributeError) as error:
                problems.append("checkpoints of %s: %s" % (key, error))
    answer = {
        "boot_id": spool.boot_id,
        "at": time.time(),
        "clock": clock,
        "runs": runs,
        "checkpoints": found,
        "gpus": None,
        "system": None,
        "problems": problems,
    }
    if request.get("system"):
        answer["system"] = _system(spool, problems)
    if cards is not None:
        answer["gpus"] = cards.answer(gpus.Owners(spool, minders), problems)
    return answer


def _look(run: Run) -> state.Look:
    try:
        seen = state.look(run)
    except FileNotFoundError:
        seen = state.Look("absent")  # Not even the spool directory is there.
    except (OSError, ValueError, KeyError) as error:
        return state.Look("unknown", "its directory cannot be read: %s" % error)
    if seen.phase == "absent" and processes.marked(run.dir):
        return state.Look("unknown", "its directory was removed, but its processes live")
    return seen


def _want_fence(run: Run, seen: state.Look) -> None:
    """Its guards put it up, and say so by another link."""
    if seen.minder is not None and not lease.is_up(run):
        run.note(lease.WANTED, "1")
        processes.send(seen.minder, signals.SIGUSR1)


def _run(run: Run, seen: state.Look) -> "dict[str, Any]":
    end = seen.end or {}
    log_bytes = run.log_bytes()
    answer = {
        "key": run.key,
        "phase": seen.phase,
        "started_at": seen.started_at,
        "ended_at": end.get("ended_at"),
        "cause": end.get("cause"),
        "exit_code": end.get("exit_code"),
        "signal": end.get("signal"),
        "message": seen.message,
        "log_bytes": log_bytes,
        "log_tail": None,
        "fenced": lease.is_up(run),
    }
    if seen.end is not None and log_bytes <= WHOLE_LOG_BYTES:
        try:
            whole = read_file(run.log, WHOLE_LOG_BYTES) if log_bytes else b""
            answer["log_tail"] = binascii.b2a_base64(whole, newline=False).decode("ascii")
        except OSError:
            pass  # It can be asked for by `read`, which will tell why not.
    return answer


def _memory() -> "dict[bytes, int]":
    lines = (processes.read_proc("/proc/meminfo") or b"").splitlines()
    return {line.split(b":")[0]: int(line.split()[1]) // 1024 for line in lines}


def _system(spool: Spool, problems: "list[str]") -> "dict[str, Any] | None":
    try:
        memory = _memory()
        path = spool.path
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        disk = os.statvfs(path)
        return {
            "load1": os.getloadavg()[0],
            "memory_total_mib": memory[b"MemTotal"],
            "memory_available_mib": memory[b"MemAvailable"],
            "disk_total_mib": disk.f_blocks * disk.f_frsize >> 20,
            "disk_free_mib": disk.f_bavail * disk.f_frsize >> 20,
            "uptime_s": time.clock_gettime(processes.BOOTTIME),
            "mps": os.path.exists(_MPS),
        }
    except (OSError, KeyError, ValueError, IndexError) as error:
        problems.append("the machine's load and memory: %s" % error)
        return None
