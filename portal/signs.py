"""Signs of life of the worker and of beat, for `/healthz`."""

from __future__ import annotations

import logging
import threading
from typing import Any

import redis
from celery.beat import PersistentScheduler, SchedulingError

from portal import broker

EVERY_S = 2.0
FRESH_S = 15
"""A part that said nothing for this long counts as gone."""

log = logging.getLogger(__name__)


def alive(part: str) -> None:
    """Note that `part` lives."""
    try:
        broker.connection().set(f"carrel:alive:{part}", 1, ex=FRESH_S)
    except redis.RedisError as error:
        log.debug("no sign of life for %s: %s", part, error)


def is_alive(part: str) -> bool:
    """Whether `part` gave a sign of life within `FRESH_S`. Raises `redis.RedisError`."""
    return bool(broker.connection().exists(f"carrel:alive:{part}"))


class Scheduler(PersistentScheduler):
    """Celery's own beat, which says at each tick that it ticks."""

    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        """A broker that is away is one line in the log; the next tick tries again."""
        try:
            return super().apply_async(*args, **kwargs)
        except SchedulingError as error:
            log.warning("%s", error)
            return None

    def tick(self, *args: Any, **kwargs: Any) -> float:
        alive("beat")
        return min(super().tick(*args, **kwargs), EVERY_S)


def pulse(part: str, stop: threading.Event) -> None:
    """Give signs of life until told to stop; run in a thread of its own."""
    while not stop.is_set():
        alive(part)
        stop.wait(EVERY_S)
