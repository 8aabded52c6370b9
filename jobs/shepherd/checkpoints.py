"""What a run has saved, and what of that is whole.

An entry of the checkpoint directory is complete when nobody of the run has it open for writing
and it has been left alone for a while, or the run has ended by itself, and nothing of it is
missing (`whole`). What was being written when its writer was killed never becomes complete. Names
that begin with a dot or end like a temporary file's are not listed: such a file gets its real name
when it is whole.
"""

import os
import stat

from . import processes, state, writing
from .seen import Memory
from .spool import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE_SETTLES_S = 2.0
DIRECTORY_SETTLES_S = 10.0
"""Between two files of one checkpoint a program may well compute for some seconds."""
MAX_ENTRIES = 1000
MAX_FILES_INSIDE = 10000
JUDGED_WITHIN_S = 5.0
"""Of one look at one run, spent on whether checkpoints are whole."""
_TEMPORARY = (".tmp", ".part", ".partial", ".temp", "~")
_ORBAX_TEMPORARY = ".orbax-checkpoint-tmp"
_PARTS = (".metadata", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
"""Hidden files of finished checkpoints: PyTorch's distributed ones, and Orbax's arrays."""
_POINTERS = ("latest", "latest_universal", "latest_checkpointed_iteration.txt", "zero_to_fp32.py")
"""Files that DeepSpeed and Megatron put beside their checkpoints. They hold nothing to go on from,
and are newer than what they name."""
_DIGITS = "0123456789"
_MOST_DIGITS = 18


def step_of(name: str) -> "int | None":
    """The last number in a name, its extension apart: 500 for `epoch=3-step=500.ckpt`."""
    stem, dot, extension = name.rpartition(".")
    if dot and extension[:1].isalpha():
        name = stem
    end = len(name)
    while end and name[end - 1] not in _DIGITS:
        end -= 1
    start = end
    while start and name[start - 1] in _DIGITS and end - start < _MOST_DIGITS:
        start -= 1
    return int(name[start:end]) if end else None


def is_temporary(name: str) -> bool:
    """Whether a program gives such a name to what it has not finished."""
    return name[:1] == "." or name.lower().endswith(_TEMPORARY) or _ORBAX_TEMPORARY in name


class Entry:
    """A file or directory, with everything below it."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.size = 0
        self.modified_ns = 0
        self.changed_ns = 0
        self.files = 0
        self.has_temporary = False
        found = os.stat(path)
        self.inode = found.st_ino
        self.is_dir = os.path.isdir(path)
        self._add(found)
        if self.is_dir:
            self._walk(path)

    def _add(self, found: os.stat_result) -> None:
        if not stat.S_ISDIR(found.st_mode):
            self.size += found.st_size
        self.modified_ns = max(self.modified_ns, found.st_mtime_ns)
        self.changed_ns = max(self.changed_ns, found.st_mtime_ns, found.st_ctime_ns)
        self.files += 1

    def _walk(self, top: str) -> None:
        waiting = [top]
        while waiting and self.files < MAX_FILES_INSIDE:
            with os.scandir(waiting.pop()) as inside:
                for item in inside:
                    self._add(item.stat(follow_symlinks=False))
                    if is_temporary(item.name) and item.name not in _PARTS:
                        self.has_temporary = True
                    if item.is_dir(follow_symlinks=False):
                        waiting.append(item.path)

    @property
    def signature(self) -> "list[int]":
        """Changes when anything is written to it."""
        return [self.changed_ns, self.size, self.files]

    def is_settled(self, now: float) -> bool:
        """Whether it has been left alone long enough."""
        patience = DIRECTORY_SETTLES_S if self.is_dir else FILE_SETTLES_S
        return now - self.changed_ns / 1e9 >= patience

    def as_json(self, key: str, memory: Memory) -> "dict[str, Any]":
        """The fields of `jobs.events.CheckpointSeen`."""
        return {
            "key": key,
            "name": _shown(self.name),
            "path": _shown(self.path),
            "size_bytes": self.size,
            "modified_at": self.modified_ns / 1e9,
            "step": step_of(self.name),
            "complete": memory.is_complete(self),
            "problem": memory.problem(self),
            "write_s": memory.took.get(self.name) if memory.is_complete(self) else None,
        }


def _shown(text: str) -> str:
    return os.fsencode(text).decode("utf-8", "replace")


def _entries(directory: str) -> "tuple[list[Entry], list[int]]":
    """What is listed, the newest first, and the inodes of what has a temporary name."""
    found = []
    with os.scandir(directory) as items:
        inodes = {item.name: item.inode() for item in items}
    hidden = [inodes[name] for name in inodes if is_temporary(name)]
    for name in inodes:
        path = os.path.join(directory, name)
        if is_temporary(name) or (name in _POINTERS and os.path.isfile(path)):
            continue
        try:
            # A link such as `latest` only repeats another entry.
            if os.path.islink(path) and os.path.dirname(os.path.realpath(path)) == directory:
                continue
            found.append(Entry(name, path))
        except OSError:
            continue  # Gone meanwhile, or not ours to read.
    found.sort(key=lambda entry: entry.modified_ns, reverse=True)
    return found[:MAX_ENTRIES], hidden[:MAX_ENTRIES]


def listing(run: Run, seen: state.Look, now: float) -> "list[dict[str, Any]]":
    """All checkpoints of a run that has started; raises OSError when they cannot be read."""
    started = seen.started or {}
    if started.get("checkpoint_dir") is None:
        return []
    directory = os.path.realpath(started["checkpoint_dir"])
    try:
        entries, hidden = _entries(directory)
    except FileNotFoundError:
        return []
    # What was once judged, and has not changed since, needs no second look. That also tells good
    # from torn when a node has restarted.
    memory = Memory(run)
    fresh = [entry for entry in entries if not memory.knows(entry)]
    if fresh:
        closed = _closed(fresh, entries, run, seen, now, directory)
        memory.judge(closed, JUDGED_WITHIN_S, seen.end is not None)
    memory.keep(entries, hidden, now)
    return [entry.as_json(run.key, memory) for entry in entries]


def _closed(
    fresh: "list[Entry]",
    entries: "list[Entry]",
    run: Run,
    seen: state.Look,
    now: float,
    directory: str,
) -> "list[Entry]":
    """Those among `fresh` that are not being written, and were not when it ended."""
    candidates = [entry for entry in fresh if not (entry.is_dir and entry.has_temporary)]
    if seen.end is not None:
        return _closed_at_the_end(candidates, entries, seen.end, now)
    settled = [entry for entry in candidates if entry.is_settled(now)]
    if not settled or seen.minder is None:
        return []
    pids = processes.descendants(seen.minder)
    written = {name for _, name in writing.being_written(pids, directory)}
    if not _goes_on(run, seen.started or {}):
        return []
    return [entry for entry in settled if entry.name not in written]


def _goes_on(run: Run, started: "dict[str, Any]") -> bool:
    """Whether no task was killed or told to end before now. If one was, that nobody has a file
    open means nothing: only the minder, who was there, can tell, when the run has ended."""
    if run.link("closing") is not None:
        return False
    for pid in started["tasks"]:
        entry = processes.stat(pid)
        if (entry is None or entry.is_leaving) and run.link("left.%d" % pid) is None:
            return False
    return True


def _closed_at_the_end(
    candidates: "list[Entry]", entries: "list[Entry]", end: "dict[str, Any]", now: float
) -> "list[Entry]":
    torn = set(end.get("torn", ()))
    doubts = [[int(moment * 1e9) for moment in pair] for pair in end.get("doubts", ())]
    ended_ns = int(end["ended_at"] * 1e9)
    if end["cause"] in ("lost", "node_restarted"):
        # Nobody saw who wrote what when it died: the last thing written may be torn.
        newest = max(entry.changed_ns for entry in entries)
        doubts.append([newest - int(FILE_SETTLES_S * 1e9), newest])
    return [
        entry
        for entry in candidates
        if entry.name not in torn
        and not any(first <= entry.changed_ns <= last for first, last in doubts)
        # Written to after our end: by another node of the same job, say.
        and (entry.changed_ns <= ended_ns or entry.is_settled(now))
    ]
