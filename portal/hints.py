"""Hints to the workers: "look at this soon". Each may be lost; the reconciler repairs that.

A hint that was given and not yet taken up is not given again: a thousand submissions in a
second are a handful of passes.
"""

from __future__ import annotations

import logging
from functools import partial

from celery.exceptions import CeleryError
from django.db import transaction
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from portal import broker, celery

LOST_AFTER_S = 5.0
"""A hint not taken up by then may be given again."""

log = logging.getLogger(__name__)


def schedule(*, countdown: float = 0) -> None:
    """Something changed that a scheduling pass would look at, now or in some seconds."""
    give = partial(_give_later, "schedule", countdown) if countdown else partial(_give, "schedule")
    transaction.on_commit(give)


def dispatch(node_id: int) -> None:
    """There is something to start or to stop on this node."""
    transaction.on_commit(partial(_give, "dispatch", node_id))


def observe(node_id: int) -> None:
    """Something happened on this node. Said at once, and without a connection to the database,
    which `on_commit` would open: each watcher of a node would hold one for ever."""
    _give("observe", node_id)


def look(node_id: int) -> None:
    """It is time for a full look at this node, its GPUs included."""
    transaction.on_commit(partial(_give, "look", node_id))


def keep_log(allocation_id: int) -> None:
    """A run has ended and its log still lies on its node only."""
    transaction.on_commit(partial(_give, "keep_log", allocation_id))


def taken(task: str, *arguments: int) -> None:
    """Called by a task before it looks: what happens from now on deserves a new hint."""
    broker.clear(_flag(task, arguments))


def _give(task: str, *arguments: int) -> None:
    if broker.first(_flag(task, arguments), LOST_AFTER_S) and not _send(task, *arguments):
        broker.clear(_flag(task, arguments))


def _give_later(task: str, countdown: float) -> None:
    """Its flag is its own, or whatever happens meanwhile would have to wait as long."""
    if broker.first(f"hint-later:{task}", countdown):
        _send(task, countdown=countdown)


def _send(task: str, *arguments: int, countdown: float | None = None) -> bool:
    try:
        celery.hint(task, *arguments, countdown=countdown)
    except (KombuError, CeleryError, RedisError, OSError) as error:
        log.warning("hint %s%s not given: %s", task, arguments, error)
        return False
    return True


def _flag(task: str, arguments: tuple[int, ...]) -> str:
    return ":".join(("hint", task, *map(str, arguments)))
