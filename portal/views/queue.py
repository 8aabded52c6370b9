"""The queue: every job that waits or runs, and those that ended, by filter."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_safe

from jobs.lifecycle import State
from portal.queries import arrays, queue
from portal.views.requests import PageRequest

STATE_CHOICES = (
    ("", "Waiting and running"),
    ("waiting", "Waiting"),
    ("active", "Running"),
    ("ended", "Ended"),
    ("failed", "Ended badly"),
    ("all", "All"),
)
SORT_CHOICES = (
    ("", "Usual order"),
    ("start", "Expected start"),
    ("newest", "Newest first"),
    ("oldest", "Oldest first"),
    ("gpus", "Most GPUs first"),
    ("walltime", "Longest walltime first"),
    ("name", "By name"),
)


@require_safe
def queue_page(request: PageRequest) -> HttpResponse:
    """The page, or only its list when htmx asks."""
    wanted = queue.Filter.read(request.GET)
    paginator, rows, number = queue.page(
        wanted=wanted, user=request.user, number=request.GET.get("page", "1")
    )
    context = {
        "filter": wanted,
        "rows": rows,
        "page": paginator.page(number),
        "counts": queue.open_counts(user=request.user, array=wanted.array),
    }
    if wanted.array:
        context |= _array(int(wanted.array))
    if request.htmx:
        return render(request, "queue/queue.html#list", context)
    context |= queue.choices() | {
        "states": (*STATE_CHOICES, *((state.value, state.value) for state in State)),
        "sorts": SORT_CHOICES,
    }
    return render(request, "queue/queue.html", context)


def _array(array_id: int) -> dict[str, Any]:
    """How the array stands, whose it is, and what of it can be cancelled and held."""
    return {
        "array": arrays.one(array_id),
        "head": arrays.head(array_id),
        "left": arrays.left(array_id),
    }


urlpatterns = [path("queue/", queue_page, name="queue")]
