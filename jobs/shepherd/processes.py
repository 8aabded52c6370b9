"""Processes as /proc tells of them: who lives, who descends from whom, and how all end."""

import os
import pwd
import time

from . import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

# Runs on through a suspend, as walltime must. Named in `time` only since Python 3.7.
BOOTTIME = getattr(time, "CLOCK_BOOTTIME", 7)
_PF_EXITING = 0x4
RUN_DIR = b"CARREL_RUN_DIR="
"""Every task carries its run's directory in its environment: the mark of last resort, and one
that two spool directories on one machine never share."""


class Stat:
    """The part of /proc/PID/stat that we need."""

    __slots__ = ("flags", "group", "pid", "ppid", "start", "state")

    def __init__(self, pid: int, text: bytes) -> None:
        fields = text[text.rindex(b")") + 2 :].split(None, 20)
        self.pid = pid
        self.state = fields[0]
        self.ppid = int(fields[1])
        self.group = int(fields[2])
        self.flags = int(fields[6])
        self.start = int(fields[19])

    @property
    def is_dead(self) -> bool:
        """Gone but for its parent's notice."""
        return self.state in (b"Z", b"X", b"x")

    @property
    def is_leaving(self) -> bool:
        """Gone, or on its way out: it has let go of its files, but not by its own will."""
        return self.is_dead or bool(self.flags & _PF_EXITING)


def read_proc(path: str, limit: int = 65536) -> "bytes | None":
    """A small file under /proc in one read; None when the process is gone or not ours."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, limit)
    except OSError:
        return None
    finally:
        os.close(fd)


def stat(pid: int) -> "Stat | None":
    """One process; None when there is none of that number."""
    text = read_proc("/proc/%d/stat" % pid, 4096)
    return Stat(pid, text) if text else None


def start_time(pid: int) -> int:
    """When it began, in clock ticks since the boot; 0 when it is gone."""
    found = stat(pid)
    return found.start if found else 0


def is_alive(pid: int, start: int) -> bool:
    """Whether the process of that number and that start time runs."""
    found = stat(pid)
    return found is not None and found.start == start and not found.is_dead


def every() -> "Iterator[int]":
    """The number of every process."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def table() -> "dict[int, Stat]":
    """Every process by its number."""
    found = {}
    for pid in every():
        entry = stat(pid)
        if entry is not None:
            found[pid] = entry
    return found


def children(parent: int) -> "list[int]":
    """A process's children, without reading every other process where the kernel tells."""
    found: "list[int]" = []
    try:
        threads = os.listdir("/proc/%d/task" % parent)
    except OSError:
        return found
    for thread in threads:
        text = read_proc("/proc/%d/task/%s/children" % (parent, thread), 1 << 20)
        if text is None and _lacks_children():
            return [entry.pid for entry in table().values() if entry.ppid == parent]
        found.extend(int(word) for word in (text or b"").split())
    return found


def _lacks_children() -> bool:
    return not os.path.exists("/proc/self/task/%d/children" % os.getpid())


def descendants(root: int, sparing: "Container[int]" = ()) -> "list[int]":
    """All descendants of a process, but for some children and theirs."""
    found = [pid for pid in children(root) if pid not in sparing]
    for pid in found:
        found.extend(children(pid))  # The loop goes on over what is added.
    return found


def groups(pids: "Iterable[int]") -> "set[int]":
    """The process groups of those that live."""
    found = (stat(pid) for pid in pids)
    return {entry.group for entry in found if entry is not None and not entry.is_dead}


def send(pid: int, number: int) -> None:
    """A signal to a process that may be gone or another user's by now."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def send_group(group: int, number: int) -> bool:
    """A signal to a process group; whether anybody is in it. 0 only asks."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def freeze(sparing: "Container[int]") -> "list[int]":
    """Stop all our descendants until no new one appears, so that nobody runs away by forking."""
    seen: "list[int]" = []
    known: "set[int]" = set()
    for _ in range(100):
        new = [pid for pid in descendants(os.getpid(), sparing) if pid not in known]
        if not new:
            break
        for pid in new:
            send(pid, signals.SIGSTOP)
        seen.extend(new)
        known.update(new)
    return seen


def end_descendants(
    reap: "Callable[[], bool]",
    note: "Callable[[list[int]], None]",
    sparing: "Container[int]" = (),
) -> None:
    """Kill every descendant of this process, which must be their subreaper, and wait.

    `reap` takes in the dead and tells whether children are left. `note` hears of the frozen
    ones before they are killed. `sparing` are children to leave alone, with all theirs. Returns
    only when no other is left.
    """
    pause = 0.001
    while reap():
        found = freeze(sparing)
        note(found)
        for pid in found:
            send(pid, signals.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.25)


def mark_of(pid: int) -> "str | None":
    """The run directory that a process carries in its environment."""
    text = read_proc("/proc/%d/environ" % pid, 1 << 21)
    at = (b"\0" + text).find(b"\0" + RUN_DIR) if text else -1
    if text is None or at < 0:
        return None
    return os.fsdecode(text[at + len(RUN_DIR) :].split(b"\0", 1)[0])


def marks() -> "Iterator[tuple[int, str]]":
    """The other living processes of this account that carry a mark, each with its run's
    directory."""
    mine = os.geteuid()
    for pid in every():
        try:
            if pid == os.getpid() or os.stat("/proc/%d" % pid).st_uid != mine:
                continue
        except OSError:
            continue
        mark = mark_of(pid)
        entry = stat(pid) if mark is not None else None
        if mark is not None and entry is not None and not entry.is_dead:
            yield pid, mark


def marked(run_dir: str) -> "list[int]":
    """Those of one run."""
    return [pid for pid, mark in marks() if mark == run_dir]


def end_marked(run_dir: str, patience_s: float = 5.0) -> "list[int]":
    """Kill all that carry a run's mark, and their descendants; who is still there after."""
    deadline = time.monotonic() + patience_s
    while True:
        found = marked(run_dir)
        if not found or time.monotonic() > deadline:
            return found
        for number in (signals.SIGSTOP, signals.SIGKILL):
            for pid in found + [child for parent in found for child in descendants(parent)]:
                send(pid, number)
        time.sleep(0.01)


def memory_mib(pids: "Iterable[int]", limit_mib: int) -> float:
    """What processes use together. Shared pages count once, but that is asked only when the
    cheap sum, which counts them for each, is over the limit."""
    page = os.sysconf("SC_PAGE_SIZE")
    resident = []
    for pid in pids:
        fields = (read_proc("/proc/%d/statm" % pid) or b"").split()
        if len(fields) > 1:
            resident.append((pid, int(fields[1]) * page / 1048576.0))
    total = sum(size for _, size in resident)
    if total <= limit_mib:
        return total
    return sum(_proportional_mib(pid, size) for pid, size in resident)


def _proportional_mib(pid: int, otherwise: float) -> float:
    text = read_proc("/proc/%d/smaps_rollup" % pid)
    for line in (text or b"").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) / 1024.0
    return otherwise


def let_go_of_strangers() -> None:
    """Close what we were handed beyond stdin, stdout and stderr: a guard would hold it open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass  # The listing itself.


def home() -> str:
    """This account's home directory."""
    try:
        return os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"
