"""The machine's NVIDIA GPUs as `nvidia-smi` tells of them, and whose processes are on them."""

import os
import pwd
import time

from . import processes, programs
from .spool import Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WITHIN_S = 5.0
_SAMPLE = "index,uuid,memory.used,utilization.gpu,temperature.gpu,power.draw"
_PROCESSES = "gpu_uuid,pid,used_gpu_memory"
_FORMAT = "--format=csv,noheader,nounits"


def rows(text: str, columns: int) -> "list[list[str | None]]":
    """The lines of a CSV answer with that many columns; what a card does not tell is None."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == columns:
            found.append([None if _is_untold(cell) else cell for cell in cells])
    return found


def _is_untold(cell: str) -> bool:
    word = cell.strip("[]").strip().lower()
    return word in ("", "n/a", "not supported", "unknown error", "insufficient permissions", "none")


def whole(cell: "str | None") -> "int | None":
    """A whole number, if it is one."""
    number = real(cell)
    return None if number is None else int(number)


def real(cell: "str | None") -> "float | None":
    """A number, if it is one."""
    try:
        return float(cell) if cell is not None else None
    except ValueError:
        return None


class Question:
    """`nvidia-smi` is asked at once and answers while the runs are being looked at."""

    def __init__(self) -> None:
        path = programs.find("nvidia-smi")
        self._is_there = path is not None
        if path is not None:
            self._cards = programs.Program([path, "--query-gpu=" + _SAMPLE, _FORMAT], WITHIN_S)
            self._users = programs.Program(
                [path, "--query-compute-apps=" + _PROCESSES, _FORMAT], WITHIN_S
            )

    def answer(self, owners: "Owners", problems: "list[str]") -> "list[dict[str, Any]] | None":
        """The fields of `jobs.events.GpuSample` for each GPU; None when they are not known.
        A machine without `nvidia-smi` has none."""
        if not self._is_there:
            return []
        cards, problem = self._cards.answer()
        users, other_problem = self._users.answer()
        problems.extend(text for text in (problem, other_problem) if text)
        if cards is None:
            return None
        samples = [_sample(cells) for cells in rows(cards, 6) if cells[0] and cells[1]]
        by_uuid = {sample["uuid"]: sample["processes"] for sample in samples}
        for uuid, pid, memory in rows(users or "", 3):
            number = whole(pid)
            if uuid in by_uuid and number is not None:
                by_uuid[uuid].append(dict(owners.of(number), memory_mib=whole(memory)))
        return samples


def _sample(cells: "list[str | None]") -> "dict[str, Any]":
    return {
        "index": whole(cells[0]),
        "uuid": cells[1],
        "memory_used_mib": whole(cells[2]),
        "utilization_pct": whole(cells[3]),
        "temperature_c": whole(cells[4]),
        "power_w": real(cells[5]),
        "processes": [],
    }


class Owners:
    """Whose a process is: which run's, which account's, and what it is called."""

    def __init__(self, spool: Spool, minders: "dict[int, str]") -> None:
        self._runs = spool.runs + "/"
        self._minders = minders

    def of(self, pid: int) -> "dict[str, Any]":
        """The fields of `jobs.events.GpuProcess`, memory apart."""
        return {
            "pid": pid,
            "run_key": self._run_of(pid),
            "user": _user_of(pid),
            "command": _command_of(pid),
            "age_s": _age_of(pid),
        }

    def _run_of(self, pid: int) -> "str | None":
        mark = processes.mark_of(pid)
        if mark is not None and mark.startswith(self._runs):
            return mark[len(self._runs) :]
        # It dropped its environment: then its ancestors tell.
        for _ in range(100):
            if pid in self._minders:
                return self._minders[pid]
            entry = processes.stat(pid)
            if entry is None or entry.ppid <= 1:
                break
            pid = entry.ppid
        return None


def _age_of(pid: int) -> "float | None":
    start = processes.start_time(pid)
    if not start:
        return None
    return max(time.clock_gettime(processes.BOOTTIME) - start / os.sysconf("SC_CLK_TCK"), 0.0)


def _user_of(pid: int) -> "str | None":
    try:
        uid = os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _command_of(pid: int) -> str:
    """The program and its first file; never all arguments, which may hold secrets."""
    words = (processes.read_proc("/proc/%d/cmdline" % pid) or b"").split(b"\0")
    names = [os.path.basename(word).decode("utf-8", "replace") for word in words[:2]]
    if len(names) > 1 and (names[1][:1] == "-" or "=" in names[1]):
        names = names[:1]
    return " ".join(name for name in names if name)[:100]
