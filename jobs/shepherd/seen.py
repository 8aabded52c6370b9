"""What earlier looks found out about a run's checkpoints: each is judged once for each signature.

`seen.json`: `complete`, signatures by name; `bad`, signature and problem by name; `since`, when an
inode that is being written was first seen; `took`, how many seconds the writing of one took.
"""

import time

from . import whole
from .spool import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .checkpoints import Entry

NO_TIME = "there was no time to look into it when its run had ended"
LONGEST = 500
"""Characters about a problem; a checkpoint may say anything of itself."""
_PARTS = ("complete", "bad", "since", "took")


class Memory:
    """Of one run, for one look."""

    def __init__(self, run: Run) -> None:
        self.run = run
        kept = run.read("seen.json") or {}
        # The job may have written anything over it.
        parts = [kept.get(name) for name in _PARTS]
        self._was = [part if isinstance(part, dict) else {} for part in parts]
        self.complete, self.bad, self.since, took = (dict(part) for part in self._was)
        self.took = {name: took[name] for name in took if isinstance(took[name], float)}

    def knows(self, entry: "Entry") -> bool:
        """Whether it has been judged since it last changed."""
        return self.is_complete(entry) or bool(self.problem(entry))

    def is_complete(self, entry: "Entry") -> bool:
        """It is closed, was left alone, and nothing of it is missing."""
        return bool(self.complete.get(entry.name) == entry.signature)

    def problem(self, entry: "Entry") -> str:
        """Why it is not whole; empty if that has not been found."""
        bad = self.bad.get(entry.name)
        if not isinstance(bad, list) or len(bad) != 2 or bad[0] != entry.signature:
            return ""
        return str(bad[1])[:LONGEST]

    def judge(self, closed: "list[Entry]", within_s: float, is_last: bool) -> None:
        """Look into those that are closed, in this order. What there is no time for, or cannot be
        read now, waits for the next look; if there will be none, that is its problem."""
        deadline = time.monotonic() + within_s
        for entry in closed:
            words, judged = NO_TIME, False
            if time.monotonic() < deadline:
                words, judged = _look_into(entry)
            if not judged and not is_last:
                continue
            if words:
                self.bad[entry.name] = [entry.signature, words[:LONGEST]]
            else:
                self._measure(entry)
                self.complete[entry.name] = entry.signature

    def _measure(self, entry: "Entry") -> None:
        """How long it took to write: from when it was first seen unfinished, under whatever name,
        to its last change. What was never seen so has not been measured."""
        began = self.since.get(str(entry.inode))
        took = entry.modified_ns / 1e9 - began if isinstance(began, float) else 0.0
        if took > 0:
            self.took[entry.name] = round(took, 3)
        else:
            self.took.pop(entry.name, None)

    def keep(self, entries: "list[Entry]", hidden: "list[int]", now: float) -> None:
        """Write down what has changed, without what is no longer there."""
        names = {entry.name for entry in entries}
        here = [entry for entry in entries if self.is_complete(entry)]
        self.complete = {entry.name: entry.signature for entry in here}
        self.bad = {name: self.bad[name] for name in self.bad if name in names}
        self.took = {name: self.took[name] for name in self.took if name in names}
        unfinished = {entry.inode for entry in entries if not self.is_complete(entry)}
        open_ = [str(inode) for inode in sorted(unfinished.union(hidden))]
        self.since = {inode: self.since.get(inode, now) for inode in open_}
        now_known = [self.complete, self.bad, self.since, self.took]
        if now_known == self._was:
            return
        try:
            self.run.write("seen.json", dict(zip(_PARTS, now_known)))
        except OSError:
            pass  # Only a saving of work is lost.


def _look_into(entry: "Entry") -> "tuple[str, bool]":
    """Its problem, if any, and whether that will be the same at the next look."""
    try:
        return whole.problem(entry.path, entry.is_dir), True
    except OSError as error:
        return "it cannot be read: %s" % (error.strerror or error), False
    except Exception as error:  # Whatever it holds must not keep us from telling of others.
        return "it makes no sense: %s" % type(error).__name__, True
