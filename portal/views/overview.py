"""The first page: what is free, what runs and waits, what ended."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.models import User
from portal.queries import gpus, nodes, overview


@require_safe
def overview_page(request: HttpRequest) -> HttpResponse:
    """The page, or the one part of it that changed (`?part=lab`, `?part=jobs`) for htmx."""
    part = request.GET.get("part") if request.htmx else None
    if part == "lab":
        return render(request, "overview/overview.html#lab", _lab())
    if part == "jobs":
        return render(request, "overview/overview.html#jobs", _jobs(request))
    return render(request, "overview/overview.html", _lab() | _jobs(request))


def _lab() -> dict[str, Any]:
    capacity = gpus.capacity()
    return {
        "capacity": capacity,
        "total": sum(kind.total for kind in capacity),
        "free": sum(kind.free for kind in capacity),
        "nodes": nodes.strip(now=timezone.now()),
        "node_count": nodes.count(),
    }


def _jobs(request: HttpRequest) -> dict[str, Any]:
    person = request.user
    assert isinstance(person, User)
    return {
        "open_jobs": overview.open_jobs(user=person),
        "ended_jobs": overview.ended_jobs(user=person),
        "counts": overview.counts(user=person),
        "steps": overview.first_steps(user=person),
    }


urlpatterns = [path("", overview_page, name="overview")]
