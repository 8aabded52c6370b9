"""Who used how much, as a page and as CSV."""

from __future__ import annotations

import csv
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpResponse, HttpResponseBadRequest
from django.shortcuts import render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.queries import spans, usage_page
from portal.queries.usage import By, Used
from portal.views.requests import PageRequest

PAGE_SIZE = 50
BY_WORDS = {
    By.PROJECT: "Project",
    By.USER: "User",
    By.BAND: "Band",
    By.MODEL: "GPU model",
    By.DAY: "Day",
}


@require_safe
def usage(request: PageRequest) -> HttpResponse:
    """The page, filtered by its URL."""
    now = timezone.now()
    wanted = usage_page.Filter.read(request.GET, now)
    table = usage_page.table(wanted.by, wanted.span, wanted.only, now=now)
    page = Paginator(table.parts, PAGE_SIZE).get_page(request.GET.get("page", "1"))
    context: dict[str, Any] = {
        "filter": wanted,
        "span": wanted.span,
        "now": now,
        "table": table,
        "page": page,
        "rows": [(used, part, wanted.inside(used)) for used, part in page],
        "by_words": BY_WORDS[wanted.by],
        "bys": [(by.value, words, wanted.url(by=by.value)) for by, words in BY_WORDS.items()],
        "periods": spans.CHOICES,
    }
    return render(request, "usage/usage.html", context | usage_page.choices())


@require_safe
def usage_csv(request: PageRequest) -> HttpResponse:
    """The same numbers for a spreadsheet; what the URL says wrongly is refused, not left out."""
    now = timezone.now()
    wanted = usage_page.Filter.read(request.GET, now)
    if wanted.problems:
        return HttpResponseBadRequest(
            "".join(f"{problem}\n" for problem in wanted.problems), content_type="text/plain"
        )
    table = usage_page.table(wanted.by, wanted.span, wanted.only, now=now)
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    name = f"usage-by-{wanted.by}-{timezone.localtime(wanted.span.since):%Y-%m-%d}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    writer = csv.writer(response)
    writer.writerow([wanted.by.value, "gpu_hours", "weighted_gpu_hours", "since", "until"])
    since, until = (
        timezone.localtime(at).isoformat(timespec="seconds")
        for at in (wanted.span.since, min(wanted.span.until, now))
    )
    for used in table.rows:
        writer.writerow(
            [_cell(used), repr(used.gpu_hours), repr(used.weighted_hours), since, until]
        )
    return response


def _cell(used: Used) -> str:
    """A spreadsheet takes a name that begins so for a formula."""
    return f"'{used.name}" if used.name.startswith(("=", "+", "-", "@")) else used.name


urlpatterns = [
    path("usage/", usage, name="usage"),
    path("usage.csv", usage_csv, name="usage-csv"),
]
