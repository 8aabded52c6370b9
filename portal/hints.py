"""Hints to the workers: "look at this soon". Each may be lost; the reconciler repairs that.

A hint that was given and not yet taken up is not given again: a thousand submissions in a
second are a handful of passes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from celery.exceptions import CeleryError
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from portal import after, broker, celery

LOST_AFTER_S = 5.0
"""A hint not taken up by then may be given again."""

log = logging.getLogger(__name__)


def schedule(*, countdown: float = 0) -> None:
    """Something changed that a scheduling pass would look at, now or in some seconds."""
    after.commit(_Later("schedule", countdown) if countdown else _Hint("schedule"))


def dispatch(node_id: int) -> None:
    """There is something to start or to stop on this node."""
    after.commit(_Hint("dispatch", (node_id,)))


def observe(node_id: int) -> None:
    """Something happened on this node. Said at once, and without a connection to the database,
    which `on_commit` would open: each watcher of a node would hold one for ever."""
    _Hint("observe", (node_id,))()


def look(node_id: int) -> None:
    """It is time for a full look at this node, its GPUs included."""
    after.commit(_Hint("look", (node_id,)))


def health(node_id: int) -> None:
    """It is time to see whether something is wrong with this node."""
    after.commit(_Hint("health", (node_id,)))


def keep_logs(node_id: int) -> None:
    """A run has ended there and its log still lies on its node only."""
    after.commit(_Hint("keep_logs", (node_id,)))


def what_if() -> None:
    """Somebody waits to be told what a change would have done."""
    after.commit(_Hint("what_if"))


def taken(task: str, *arguments: int) -> None:
    """Called by a task before it looks: what happens from now on deserves a new hint."""
    broker.clear(_Hint(task, arguments).flag)


@dataclass(frozen=True)
class _Hint:
    task: str
    arguments: tuple[int, ...] = ()

    @property
    def flag(self) -> str:
        return ":".join(("hint", self.task, *map(str, self.arguments)))

    def __call__(self) -> None:
        if broker.first(self.flag, LOST_AFTER_S) and not _send(self.task, *self.arguments):
            broker.clear(self.flag)


@dataclass(frozen=True)
class _Later:
    task: str
    countdown: float

    def __call__(self) -> None:
        """Its flag is its own, or whatever happens meanwhile would have to wait as long."""
        if broker.first(f"hint-later:{self.task}", self.countdown):
            _send(self.task, countdown=self.countdown)


def _send(task: str, *arguments: int, countdown: float | None = None) -> bool:
    try:
        celery.hint(task, *arguments, countdown=countdown)
    except (KombuError, CeleryError, RedisError, OSError) as error:
        log.warning("hint %s%s not given: %s", task, arguments, error)
        return False
    return True
