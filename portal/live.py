"""What changed -> open pages.

Actions name topics (`job-17`, `jobs`, `nodes`, `node-3`, `log-17`); after the commit they are
published on Redis; each web process listens once and passes them on to its open event streams,
where htmx fetches the partial concerned. A lost message costs nothing but a late picture.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress

import redis
import redis.asyncio
from django.conf import settings
from django.db import transaction

from portal import after, broker

CHANNEL = "carrel:live"
SILENCE_S = 15
"""An event stream says at least this often that it is alive."""
GATHER_S = 0.2
"""Changes this close together reach a page as one message."""

log = logging.getLogger(__name__)


class _News:
    """The topics of one transaction, told together. Equal to any other, so that there is one."""

    def __init__(self) -> None:
        self.topics: dict[str, None] = {}

    def __call__(self) -> None:
        publish(*self.topics)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _News)

    __hash__ = None  # type: ignore[assignment]


def changed(*topics: str) -> None:
    """Tell open pages, once the present transaction has been committed."""
    if not topics:
        return
    if not transaction.get_connection().in_atomic_block:
        publish(*topics)
        return
    after.commit(_News()).topics.update(dict.fromkeys(topics))


def publish(*topics: str) -> None:
    """Tell open pages now. Never raises for a Redis that is away."""
    try:
        broker.connection().publish(CHANNEL, " ".join(topics))
    except redis.RedisError:
        log.debug("not told: %s", topics)


class Hub:
    """This process's one subscription, shared by all of its event streams."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[str]] = set()
        self._listener: asyncio.Task[None] | None = None

    async def topics(self) -> AsyncGenerator[frozenset[str], None]:
        """Yield sets of changed topics; an empty set as a sign of life."""
        queue: asyncio.Queue[str] = asyncio.Queue(maxsize=10_000)
        self._queues.add(queue)
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        try:
            while True:
                yield await self._gather(queue)
        finally:
            self._queues.discard(queue)

    @staticmethod
    async def _gather(queue: asyncio.Queue[str]) -> frozenset[str]:
        try:
            async with asyncio.timeout(SILENCE_S):
                found = {await queue.get()}
        except TimeoutError:
            return frozenset()
        await asyncio.sleep(GATHER_S)
        while not queue.empty():
            found.add(queue.get_nowait())
        return frozenset(found)

    async def _listen(self) -> None:
        while self._queues:
            with suppress(redis.RedisError, OSError):
                await self._subscribe()
            await asyncio.sleep(1)

    async def _subscribe(self) -> None:
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL, decode_responses=True)
        async with client, client.pubsub() as subscription:
            await subscription.subscribe(CHANNEL)
            # What was missed while nobody listened is unknown: every page looks again.
            self._pass_on("all")
            while self._queues:
                message = await subscription.get_message(
                    ignore_subscribe_messages=True, timeout=SILENCE_S
                )
                for topic in str(message["data"]).split() if message else ():
                    self._pass_on(topic)

    def _pass_on(self, topic: str) -> None:
        for queue in self._queues:
            with suppress(asyncio.QueueFull):
                queue.put_nowait(topic)


hub = Hub()
