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

from portal import broker, celery

LOST_AFTER_S = 5.0
"""A hint not taken up by then may be given again."""

log = logging.getLogger(__name__)


def schedule(*, countdown: float = 0) -> None:
    """Something changed that a scheduling pass would look at."""
    transaction.on_commit(partial(_give, "schedule", countdown=countdown))


def dispatch(node_id: int) -> None:
    """There is something to start or to stop on this node."""
    transaction.on_commit(partial(_give, "dispatch", node_id))


def observe(node_id: int) -> None:
    """Something happened on this node."""
    transaction.on_commit(partial(_give, "observe", node_id))


def look(node_id: int) -> None:
    """It is time for a full look at this node, its GPUs included."""
    transaction.on_commit(partial(_give, "look", node_id))


def keep_log(allocation_id: int) -> None:
    """A run has ended and its log still lies on its node only."""
    transaction.on_commit(partial(_give, "keep_log", allocation_id))


def taken(task: str, *arguments: int) -> None:
    """Called by a task before it looks: what happens from now on deserves a new hint."""
    broker.clear(_flag(task, arguments))


def _give(task: str, *arguments: int, countdown: float = 0) -> None:
    if not broker.first(_flag(task, arguments), LOST_AFTER_S + countdown):
        return
    try:
        celery.hint(task, *arguments, countdown=countdown or None)
    except (KombuError, CeleryError, OSError) as error:
        log.warning("hint %s%s not given: %s", task, arguments, error)


def _flag(task: str, arguments: tuple[int, ...]) -> str:
    return ":".join(("hint", task, *map(str, arguments)))
