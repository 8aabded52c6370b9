"""The verb `health`: what looks sick on this machine, asked about once a minute.

Input: `log_boot_id` and `log_after_us` (null: never asked before), `mounts` (paths that must be
mounted), `check` (an administrator's own program, or empty).
Output: the fields of `jobs.nodes.health.HealthSeen`. What may hang is asked in a process of its
own, all side by side, so that the whole takes half a minute at most.
"""

import os
import re
import time

from . import gpu_health, kernel_log, processes, programs, wire
from .spool import Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

DISK_S = 5.0
CHECK_S = 30.0
"""Later than all else is answered, since it is read last."""
SAID = 500
_TMP = "/tmp"  # nosec B108: only looked at
_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(rb"\\([0-7]{3})")


class Aside(programs.Program):
    """A question to this machine that may hang in the kernel, as one to a dead file server."""

    def __init__(self, name: str, ask: "Callable[[], dict[str, Any]]", within_s: float) -> None:
        self._ask = ask
        super().__init__([name], within_s)

    def _become(self, writing: int) -> None:
        code = 1
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            os.write(1, wire.dumps(self._told()))
            code = 0
        finally:
            os._exit(code)

    def _told(self) -> "dict[str, Any]":
        try:
            return self._ask()
        except OSError as error:
            return {"error": error.strerror or str(error)}

    def found(self) -> "dict[str, Any]":
        """What it found; with `error` when it found nothing."""
        text, problem = self.answer()
        found: "dict[str, Any]" = {"error": problem} if text is None else wire.loads(text)
        return found


def verb(spool: Spool, request: "dict[str, Any]") -> "dict[str, Any]":
    """Look for what is wrong."""
    began = time.monotonic()
    check = _Check(request["check"]) if request.get("check") else None
    disks = [(path, Aside(path, _Disk(path), DISK_S)) for path in _paths(spool)]
    mounts = [(path, Aside(path, _Mount(path), DISK_S)) for path in request.get("mounts", ())]
    answer = {
        "boot_id": spool.boot_id,
        "disks": [dict(one.found(), path=path) for path, one in disks],
        "mounts": [dict(one.found(), path=path) for path, one in mounts],
        "memory_stalled_pct": memory_stalled(processes.read_proc("/proc/pressure/memory") or b""),
        "kernel_log": kernel_log.read(
            spool, request.get("log_boot_id"), request.get("log_after_us")
        ),
    }
    answer["gpus"], answer["driver_problem"] = gpu_health.ask()
    answer["check"] = check.answer() if check else None
    answer["took_s"] = time.monotonic() - began
    answer["at"] = time.time()
    return answer


def _paths(spool: Spool) -> "list[str]":
    """One of each file system is enough, but which is which is not asked: that may hang."""
    return [spool.path, _TMP]


class _Disk:
    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self) -> "dict[str, Any]":
        path = self.path
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        disk = os.statvfs(path)
        return {
            "total_mib": disk.f_blocks * disk.f_frsize >> 20,
            "free_mib": disk.f_bavail * disk.f_frsize >> 20,
            "inodes": disk.f_files,
            "inodes_free": disk.f_favail,
        }


class _Mount:
    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self) -> "dict[str, Any]":
        os.stat(os.path.join(self.path, "."))  # What is mounted on demand is mounted by this.
        place = os.path.realpath(self.path)
        return {"mounted": place in mount_points(processes.read_proc(_MOUNTS, 1 << 22) or b"")}


def mount_points(text: bytes) -> "set[str]":
    """From `/proc/self/mountinfo`, where spaces and the like are octal. A bind mount cannot be
    told from a plain directory in any other way."""
    places = (line.split(b" ")[4:5] for line in text.splitlines())
    return {
        os.fsdecode(_OCTAL.sub(lambda code: bytes([int(code.group(1), 8)]), place[0]))
        for place in places
        if place
    }


class _Check:
    """An administrator's program: exit code 0 says that the machine is well."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._program = programs.Program([path], CHECK_S) if os.access(path, os.X_OK) else None

    def answer(self) -> "dict[str, Any]":
        if self._program is None:
            return {"well": False, "said": "it is not there, or this account may not run it"}
        text, problem = self._program.answer()
        lines = self._program.said.strip().splitlines()
        said = lines[-1].strip() if lines else problem
        return {"well": text is not None, "said": said[:SAID]}


def memory_stalled(text: bytes) -> "float | None":
    """From `/proc/pressure/memory`: for how many percent of the last minute nothing ran at all for
    want of memory. None where the kernel does not tell."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == [b"full"]:
            for word in words[1:]:
                name, _, value = word.partition(b"=")
                if name == b"avg60":
                    return float(value)
    return None
