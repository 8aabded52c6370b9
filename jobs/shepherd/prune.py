"""The verb `prune`: remove checkpoints that need not be kept.

Input: `prunes`, a list of `key`, `name` and `size_bytes`. Output: `pruned`, in the same order:
`key`, `name`, `gone`, and a `message` for what is still there.

Removed is only what a look at that very run has found complete, and what has not changed since.
"""

import os

from . import state
from .checkpoints import Entry, is_temporary
from .seen import Memory
from .spool import Run, Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LEAVING = ".carrel-prune."


class Kept(Exception):
    """Why it is not removed."""


def verb(spool: Spool, request: "dict[str, Any]") -> "dict[str, Any]":
    """Remove each of them that may be."""
    answers = []
    for wanted in request["prunes"]:
        run, name = spool.run(wanted["key"]), str(wanted["name"])
        message = ""
        try:
            _prune(run, name, int(wanted["size_bytes"]))
        except Kept as error:
            message = str(error)
        except OSError as error:
            message = "it cannot be removed: %s" % (error.strerror or error)
        answers.append({"key": run.key, "name": name, "gone": not message, "message": message})
    return {"pruned": answers}


def _directory(run: Run) -> str:
    started = state.look(run).started or {}
    told = started.get("checkpoint_dir")
    if told is None:
        raise Kept("its run has no checkpoint directory")
    found: str = os.path.realpath(told)
    return found


def _prune(run: Run, name: str, size_bytes: int) -> None:
    if not name or "/" in name or "\0" in name or is_temporary(name):
        raise Kept("it is no name of a checkpoint")
    directory = _directory(run)
    _finish(directory)
    path = os.path.join(directory, name)
    try:
        if os.path.islink(path):
            raise Kept("it is a link")
        entry = Entry(name, path)
    except FileNotFoundError:
        return  # As wanted.
    if entry.size != size_bytes or not Memory(run).is_complete(entry):
        raise Kept("it has changed")
    _remove(directory, entry)


def _remove(directory: str, entry: Entry) -> None:
    # Renamed first: nobody shall go on from one that is half gone.
    leaving = os.path.join(directory, _LEAVING + entry.name)
    os.rename(entry.path, leaving)
    # Renaming is a change in itself; being written to shows in these.
    found = Entry(entry.name, leaving)
    if [found.size, found.files, found.modified_ns] != [entry.size, entry.files, entry.modified_ns]:
        os.rename(leaving, entry.path)
        raise Kept("it has changed")
    _delete(leaving)


def _finish(directory: str) -> None:
    """Remove what an earlier call was cut off from removing."""
    for name in os.listdir(directory):
        if name.startswith(_LEAVING):
            _delete(os.path.join(directory, name))


def _delete(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        # Loaded only here: it takes longer than most calls. It follows no links, also where one is
        # put in the place of a directory meanwhile.
        __import__("shutil").rmtree(path)
    else:
        os.unlink(path)
