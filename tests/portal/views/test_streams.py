"""The event stream of an open page, over a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.test import AsyncClient, Client

from portal import live
from portal.models import User
from portal.views import streams


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await story()

    async_to_sync(bounded)()


async def opened(user: User | None, topics: str = "jobs,node-3") -> AsyncIterator[bytes]:
    client = AsyncClient()
    if user:
        await client.aforce_login(user)
    response: Any = await client.get(f"/live/?topics={topics}")
    assert response["Content-Type"] == "text/event-stream"
    return aiter(response.streaming_content)


async def until(stream: AsyncIterator[bytes], words: bytes) -> bytes:
    """The stream's text up to the message with these words."""
    text = b""
    while words not in text:
        text += await anext(stream)
    return text


def events(text: bytes) -> list[str]:
    return [line[7:] for line in text.decode().splitlines() if line.startswith("event: ")]


def test_what_changed_is_told(alice: User) -> None:
    async def story() -> None:
        stream = await opened(alice)
        assert events(await anext(stream)) == ["jobs", "node-3"]
        # The subscription to Redis begins with everything once more: from here on it stands.
        assert events(await until(stream, b"node-3")) == ["jobs", "node-3"]
        await sync_to_async(live.publish)("node-3", "node-4", "log-9")
        assert events(await until(stream, b"node-3")) == ["node-3"]
        await sync_to_async(live.publish)("all")
        assert events(await until(stream, b"node-3")) == ["jobs", "node-3"]
        await stream.aclose()

    run(story)


def test_a_stream_ends_so_that_it_is_asked_for_again(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LIFE_S", -1)

    async def story() -> None:
        stream = await opened(alice)
        assert len([message async for message in stream]) == 2

    run(story)


def test_whoever_is_signed_out_is_told_to_look_and_no_more(db: None) -> None:
    async def story() -> None:
        stream = await opened(None)
        messages = [message async for message in stream]
        assert len(messages) == 1
        assert events(messages[0]) == ["jobs", "node-3"]

    run(story)


@pytest.mark.parametrize(
    "topics",
    [
        "",
        "all",
        "jobs,secrets",
        "job-",
        "job-1\nevent: x",
        "job-\N{ARABIC-INDIC DIGIT THREE}",
        ",".join(f"job-{number}" for number in range(101)),
    ],
)
def test_topics_are_checked(as_alice: Client, topics: str) -> None:
    answer = as_alice.get("/live/", {"topics": topics})
    assert answer.status_code == 400
    assert b"topics should be" in answer.content


def test_a_post_is_refused(as_alice: Client) -> None:
    assert as_alice.post("/live/?topics=jobs").status_code == 405
