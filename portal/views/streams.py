"""`/live/?topics=jobs,node-3`: tells an open page which of its topics changed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_not_required
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, StreamingHttpResponse
from django.urls import path
from django.views.decorators.http import require_GET

from portal import live

MOST_TOPICS = 100
LIFE_S = 15 * 60
"""A stream ends after this long; the browser opens another, and is asked who it is again."""
REST_S = 0.6
"""Between two messages to one page, so that a busy lab does not keep it busy too."""

_TOPIC = re.compile(r"(jobs|nodes|projects|job-\d+|log-\d+|node-\d+|project-\d+)\Z", re.ASCII)


@login_not_required
@require_GET
async def stream(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Server-Sent Events named after the topics, each topic once at the beginning.

    A redirect to the sign-in page would mean nothing to an open stream, so that whoever is
    signed out gets that beginning only.
    """
    topics = frozenset(filter(None, request.GET.get("topics", "").split(",")))
    wrong = sorted(topic for topic in topics if not _TOPIC.match(topic))
    if wrong or not 1 <= len(topics) <= MOST_TOPICS:
        return HttpResponseBadRequest(
            f"topics should be 1 to {MOST_TOPICS} of jobs, nodes, projects, "
            "job-N, log-N, node-N, project-N, separated by commas\n",
            content_type="text/plain",
        )
    signed_in = (await request.auser()).is_authenticated
    # The stream needs no database any more; hundreds of them must not hold a connection each.
    await sync_to_async(close_old_connections)()
    response = StreamingHttpResponse(
        _events(topics) if signed_in else _once(topics), content_type="text/event-stream"
    )
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


async def _once(topics: frozenset[str]) -> AsyncIterator[str]:
    """For a page whose session has ended: its parts ask again and are sent to sign in."""
    yield _message(topics)


async def _events(topics: frozenset[str]) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    end = loop.time() + LIFE_S
    # What changed between the page's rendering and now is unknown: it looks at everything again.
    yield _message(topics)
    changes = live.hub.topics()
    try:
        async for changed in changes:
            concerned = topics if "all" in changed else topics & changed
            yield _message(concerned) if concerned else ": alive\n\n"
            if loop.time() > end:
                return
            if concerned:
                await asyncio.sleep(REST_S)
    finally:
        await changes.aclose()


def _message(topics: frozenset[str]) -> str:
    return "".join(f"retry: 1000\nevent: {topic}\ndata: {topic}\n\n" for topic in sorted(topics))


urlpatterns = [path("live/", stream, name="live")]
