"""A job's log: shown, followed, searched and downloaded, always in ranges."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from asgiref.sync import sync_to_async
from django.http import Http404, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_safe

from jobs.engines.contract import LogRange
from jobs.nodes.transport import NodeError
from portal.models import Job
from portal.queries import job as query
from portal.queries import log_search, log_window
from portal.queries.log_window import LogGone
from portal.queries.logs import MAX_RANGE
from portal.views.log_text import plain, to_html
from portal.views.requests import PageRequest

LARGEST_OFFSET = 2**53
"""What a browser counts to exactly; no log is longer."""

log = logging.getLogger(__name__)


class _NoRun(Exception):
    """There is no log yet, or none of that rank."""


def _open(request: PageRequest, pk: int) -> tuple[Job, query.LoggedRun, log_window.Read]:
    job = query.find(pk)
    if job is None:
        raise Http404(f"There is no job {pk}.")
    run = query.run(job, request.GET)
    if run is None:
        raise _NoRun
    return job, run, log_window.reader(run.allocation)


def _offset(request: PageRequest, name: str) -> int | None:
    """A position from the URL; None when it is not given or is no number."""
    text = request.GET.get(name, "")
    if not (text.isascii() and text.isdigit()):
        return None
    return min(int(text[:16]), LARGEST_OFFSET)


@require_safe
def job_log(request: PageRequest, pk: int) -> HttpResponse:
    """The log's end, the lines before `?before=` or those around `?at=`.

    A page of its own, or the part of the job's page when htmx asks.
    """
    template = "job/log.html#log" if request.htmx else "job/log.html"
    job = query.find(pk)
    if job is None:
        raise Http404(f"There is no job {pk}.")
    run = query.run(job, request.GET)
    context: dict[str, Any] = {"job": job, "run": run, "topics": f"log-{pk}"}
    if run is None:
        return render(request, template, context)
    read = log_window.reader(run.allocation)
    at, before = _offset(request, "at"), _offset(request, "before")
    context |= {"address": _address(run), "at": at, "follow": at is None and before is None}
    try:
        if at is not None:
            window = log_window.around(read, at)
        elif before is not None:
            window = log_window.before(read, before)
        else:
            window = log_window.tail(read)
    except (NodeError, LogGone) as error:
        return render(request, template, context | {"problem": _problem(error)})
    return render(
        request,
        template,
        context
        | {
            "window": window,
            "lines": to_html(window.lines),
            "open_line": to_html(window.open_line),
        },
    )


def _address(run: query.LoggedRun) -> str:
    """The query string that names this run."""
    named = {"rank": run.allocation.rank}
    return urlencode(named if run.latest else named | {"attempt": run.attempt})


def _problem(error: NodeError | LogGone) -> dict[str, str]:
    return {"message": error.message, "advice": error.advice}


@require_safe
def log_range(request: PageRequest, pk: int) -> HttpResponse:
    """What follows `?offset=` or comes before `?before=`, or the end, as JSON with escaped HTML.

    {start, next, size, more, lines, open}; when the node does not answer, status 503 with
    {message, advice}.
    """
    try:
        _, _, read = _open(request, pk)
        before, offset = _offset(request, "before"), _offset(request, "offset")
        if before is not None:
            window = log_window.before(read, before)
        elif offset is not None:
            window = log_window.since(read, offset)
        else:
            window = log_window.tail(read)
    except _NoRun:
        return JsonResponse({"message": "There is no log yet.", "advice": ""}, status=404)
    except (NodeError, LogGone) as error:
        return JsonResponse(_problem(error), status=503)
    return JsonResponse(
        {
            "start": window.start,
            "next": window.next,
            "size": window.size,
            "more": window.more,
            "lines": to_html(window.lines),
            "open": to_html(window.open_line),
        }
    )


@require_safe
def log_search_view(request: PageRequest, pk: int) -> HttpResponse:
    """Lines that hold `?q=`, from byte `?from=` on, which lies in line `?line=`."""
    template = "job/log_search.html#found" if request.htmx else "job/log_search.html"
    words = request.GET.get("q", "")[: log_search.MAX_NEEDLE]
    try:
        job, run, read = _open(request, pk)
    except _NoRun:
        raise Http404("There is no log yet.") from None
    context: dict[str, Any] = {"job": job, "run": run, "q": words, "address": _address(run)}
    if words:
        try:
            found = log_search.find(
                read,
                words.encode(errors="replace"),
                offset=_offset(request, "from") or 0,
                line=_offset(request, "line") or 1,
            )
        except (NodeError, LogGone) as error:
            return render(request, template, context | {"problem": _problem(error)})
        context |= {"found": found, "matches": [_shown(match) for match in found.matches]}
    return render(request, template, context)


def _shown(match: log_search.Match) -> dict[str, Any]:
    parts = {name: plain(getattr(match, name)) for name in ("before", "found", "after")}
    return parts | {"offset": match.offset, "line": match.line}


@require_safe
def log_download(request: PageRequest, pk: int) -> HttpResponse | StreamingHttpResponse:
    """The whole log as it is now, streamed range by range."""
    try:
        job, run, read = _open(request, pk)
        first = read(0, MAX_RANGE)
    except _NoRun:
        raise Http404("There is no log yet.") from None
    except (NodeError, LogGone) as error:
        problem = _problem(error)
        return render(request, "job/log.html", {"job": job, "run": run, "problem": problem,
                      "address": _address(run)}, status=503)  # fmt: skip
    name = f"job-{job.label}.attempt-{run.attempt}.rank-{run.allocation.rank}.log"
    return StreamingHttpResponse(
        _stream(read, first),
        content_type="text/plain; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            # With it a browser notices when the node went away in the middle.
            "Content-Length": str(first.size),
            "Cache-Control": "private, no-store",
        },
    )


async def _stream(read: log_window.Read, first: LogRange) -> AsyncIterator[bytes]:
    """The log up to the size it had at first: it may grow for hours."""
    yield first.data
    at = len(first.data)
    ahead = sync_to_async(read)
    while at < first.size:
        try:
            part = await ahead(at, min(MAX_RANGE, first.size - at))
        except (NodeError, LogGone) as error:
            log.warning("a download stopped at byte %d of %d: %s", at, first.size, error)
            return
        if not part.data:
            return
        yield part.data
        at += len(part.data)


urlpatterns = [
    path("jobs/<int:pk>/log/", job_log, name="job-log"),
    path("jobs/<int:pk>/log/range/", log_range, name="job-log-range"),
    path("jobs/<int:pk>/log/search/", log_search_view, name="job-log-search"),
    path("jobs/<int:pk>/log/download/", log_download, name="job-log-download"),
]
