"""The verb `launch`: start runs, each at most once for ever.

Input: `launches`, a list of objects with the fields of `jobs.engines.contract.Launch`, and
`lease`, a grant or none. What is to be fenced begins before the end of this very grant or never:
who waits for the lease to end does not wait for messages that are still on their way.
Output: `launched`, in the same order: `key`, `accepted`, `started_at`, `message`, `refused`.
"""

import gc
import os
import select
import time

from . import keeper, lease, processes, state, tasks
from .beginning import Beginning
from .spool import NEVER, BadKey, Run, Spool, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

ANSWER_WITHIN_S = 25.0
_DEFAULTS: "dict[str, Any]" = {
    "environment": {},
    "tasks": [{}],
    "workdir": "",
    "checkpoint_dir": "",
    "stdout": None,
    "stderr": None,
    "warning_signal": 15,
    "warning_before_s": 0,
    "grace_s": 30,
    "memory_mib": None,
    "log_cap_bytes": 64 * 1024 * 1024,
    "late": False,
    "fence": False,
}


def verb(spool: Spool, request: "dict[str, Any]") -> "dict[str, Any]":
    """Claim, prepare and start each run; wait a moment for word of each."""
    processes.let_go_of_strangers()
    try:
        spool.prepare()
        begin_by = lease.Lease(spool).take_in(request.get("lease"))
        presence = spool.announce_launcher()
    except OSError as error:
        return {"launched": [_refused(given, error) for given in request["launches"]]}
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    inherited = tasks.inherited()
    hear, tell = os.pipe()
    beginnings: "list[Beginning]" = []
    asked: "dict[int, Run]" = {}
    answers = []
    living = {mark for _, mark in processes.marks()}
    for index, given in enumerate(request["launches"]):
        try:
            run = spool.run(given.get("key"))
            spec = _claim(run, given, living, begin_by)
            asked[index] = run
        except (BadKey, OSError, KeyError, ValueError) as error:
            answers.append(_refused(given, error))
            continue
        answer = {"key": run.key, "accepted": True, "started_at": None, "message": ""}
        answers.append(answer)
        if spec is not None:
            beginnings.append(Beginning(run, spec, inherited, null))
            beginnings[-1].answers_on(tell, index)
    _start(beginnings)
    os.close(tell)
    for index, started_at in _heard(hear).items():
        answers[index]["started_at"] = started_at
    spool.leave(presence)
    for index, run in asked.items():
        if answers[index]["started_at"] is None:
            _tell_known(run, answers[index])
    return {"launched": answers}


def _start(beginnings: "list[Beginning]") -> None:
    if hasattr(gc, "freeze"):
        gc.freeze()  # Memory that the guards never touch stays shared with all of them.
    if beginnings and os.fork() == 0:
        try:
            keeper.keep(beginnings)
        finally:
            os._exit(1)


def _refused(given: "dict[str, Any]", error: Exception) -> "dict[str, Any]":
    """The answer to what could not even be taken in."""
    if isinstance(error, KeyError):
        words = "the launch lacks %s" % error
    elif isinstance(error, OSError):
        words = "%s: %s" % (tasks.why(error), error.filename or "the spool directory")
    else:
        words = str(error)
    return {"key": given.get("key"), "accepted": False, "refused": True, "message": words}


def _claim(
    run: Run, given: "dict[str, Any]", living: "Container[str]", begin_by: float
) -> "dict[str, Any] | None":
    """What to run, or None when it was launched before, the directory being the guard, or comes
    too late. `living`: the directories of runs of which processes live."""
    spec = dict(_DEFAULTS)
    spec.update(given)
    spec["begin_by"] = begin_by
    # Line ends, quotes and the rest stay as they are; text that is no UTF-8 does, too.
    script = spec.pop("script").encode("utf-8", "surrogateescape")
    spec["walltime_s"] = int(spec["walltime_s"])
    late = spec.pop("late")
    if run.dir in living:
        return None  # Its directory may have been removed, and then guards nothing any more.
    try:
        os.mkdir(run.dir, 0o700)
    except FileExistsError:
        if not late:
            return None
    if late:
        # No other launch finds the directory free, and of one that has made it, no minder may
        # begin any more: whoever takes `begun` first decides.
        run.take("begun", NEVER + "not_begun")
        return None
    if spec["fence"] and lease.clock() >= begin_by:
        run.never("not_begun", lease.TOO_LATE)
        return None
    try:
        _write(run.path("script"), script, 0o700)
        if spec["fence"]:
            run.take(lease.WANTED, "1")
    except OSError:
        run.note("begun", NEVER + "launch_failed")
        raise
    return spec


def _write(path: str, data: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def _heard(hear: int) -> "dict[int, float]":
    """What the minders said until all have spoken or time is up: when each run started."""
    deadline = time.monotonic() + ANSWER_WITHIN_S
    poll = select.poll()
    poll.register(hear, select.POLLIN)
    text = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            break
        data = os.read(hear, 65536)
        if not data:
            break
        text += data
    words = [line.split() for line in text.splitlines() if line.count(b" ") == 1]
    return {int(index): float(moment) for index, moment in words}


def _tell_known(run: Run, answer: "dict[str, Any]") -> None:
    try:
        seen = state.look(run)
    except OSError:
        return  # It was taken in, and `observe` will tell.
    answer["started_at"] = seen.started_at
    answer["accepted"] = not seen.never_began
    answer["message"] = seen.message
