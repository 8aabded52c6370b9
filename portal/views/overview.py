"""The first page: what is free, what runs and waits, what ended."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.queries import findings, gpus, nodes, overview
from portal.queries.rights import may_manage_nodes
from portal.views.requests import PageRequest


@require_safe
def overview_page(request: PageRequest) -> HttpResponse:
    """The page, or the one part of it that changed (`?part=lab`, `?part=jobs`) for htmx."""
    part = request.GET.get("part") if request.htmx else None
    if part == "lab":
        return render(request, "overview/overview.html#lab", _lab(request))
    if part == "jobs":
        return render(request, "overview/overview.html#jobs", _jobs(request))
    return render(request, "overview/overview.html", _lab(request) | _jobs(request))


def _lab(request: PageRequest) -> dict[str, Any]:
    capacity = gpus.capacity()
    return {
        "capacity": capacity,
        "total": sum(kind.total for kind in capacity),
        "free": sum(kind.free for kind in capacity),
        "nodes": nodes.strip(now=timezone.now()),
        "node_count": nodes.count(),
        "findings": findings.in_lab() if may_manage_nodes(request.user) else None,
    }


def _jobs(request: PageRequest) -> dict[str, Any]:
    open_jobs, ended_jobs = overview.jobs(user=request.user)
    return {
        "open_jobs": open_jobs,
        "ended_jobs": ended_jobs,
        "counts": overview.counts(user=request.user),
        "steps": overview.first_steps(user=request.user),
    }


urlpatterns = [path("", overview_page, name="overview")]
