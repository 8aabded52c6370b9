"""The tree of projects, and one with its shares, members, quotas, use, jobs and events."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.models import Project
from portal.queries import accounts, projects, queue, spans, usage_page
from portal.queries.books import Only
from portal.queries.spans import Span
from portal.queries.usage import By
from portal.views.requests import PageRequest

MOST_JOBS = 10
"""Of each kind; the rest is behind a link."""
TOLD_BY = ((By.USER, "User"), (By.BAND, "Band"), (By.MODEL, "GPU model"))


def project_or_404(name: str) -> Project:
    """With its parent. PostgreSQL knows no NUL, and would not look for one."""
    rows = Project.objects.select_related("parent")
    return get_object_or_404(rows, name=name.replace("\0", " "))


@require_safe
def projects_page(request: PageRequest) -> HttpResponse:
    """The page, or only its list when htmx asks."""
    found = projects.standing(timezone.now())
    wanted = projects.Filter.read(request.GET)
    page, lines = projects.tree(
        wanted=wanted, user=request.user, number=request.GET.get("page", "1"), found=found
    )
    context = {
        "filter": wanted,
        "page": page,
        "lines": lines,
        "at": found.at,
        "lends": None in found.lends,
        "any": bool(found.projects),
    }
    template = "projects/projects.html#list" if request.htmx else "projects/projects.html"
    return render(request, template, context)


@require_safe
def project_page(request: PageRequest, name: str) -> HttpResponse:
    """All about one project."""
    project = project_or_404(name)
    now = timezone.now()
    found = projects.standing(now)
    span = Span.read(request.GET, now)
    page, people = projects.people(project, found, request.GET.get("page", "1"))
    limits = projects.limits(project, found, request.user)
    above = projects.limits_above(project, found, request.user)
    context = {
        "project": project,
        "at": now,
        "share": found.share(project.pk),
        "way": projects.way_down(project, found),
        "above": found.above(project.pk),
        "children": found.children.get(project.pk, []),
        "decayed": found.decayed[project.pk],
        "month": found.this_month[project.pk],
        "page": page,
        "people": people,
        "limits": limits,
        "limits_above": above,
        "lent": project.parent_id in found.lends,
        "guarantee": found.counters.tree.guarantees.get(project.pk),
        "borrowed": found.counters.over_guarantee(project.pk),
        "names": projects.names_of(limits + [one for step in above for one in step.limits]),
        "events": projects.events(project, request.GET.get("events", "1")),
    }
    context |= _use(project, span, bool(context["children"])) | _jobs(request, project)
    return render(request, "projects/project.html", context)


@require_safe
def limits_page(request: PageRequest, name: str) -> HttpResponse:
    """What its users have used of their limits, all of them."""
    project = project_or_404(name)
    found = projects.standing(timezone.now())
    page, names = projects.limits_of_users(project, found, request.GET)
    context = {
        "project": project,
        "at": found.at,
        "above": found.above(project.pk),
        "page": page,
        "names": names,
    }
    return render(request, "projects/limits_of_users.html", context)


def _use(project: Project, span: Span, has_children: bool) -> dict[str, Any]:
    """By whom and on what, of it with all below."""
    only = Only(projects=accounts.below(project.pk))
    told = (*TOLD_BY, (By.PROJECT, "Project")) if has_children else TOLD_BY
    now = timezone.now()
    return {
        "span": span,
        "periods": spans.CHOICES,
        "tables": [(usage_page.table(by, span, only, now=now), words) for by, words in told],
    }


def _jobs(request: PageRequest, project: Project) -> dict[str, Any]:
    """What runs and what waits of it, without those below it."""
    kinds = {}
    counts = projects.open_jobs([project.pk]).get(project.pk, (0, 0))
    states = (("active", "Running"), ("waiting", "Waiting"))
    for (state, words), count in zip(states, counts, strict=True):
        wanted = queue.Filter(project=project.name, state=state)
        _, rows, _ = queue.page(wanted=wanted, user=request.user, number="1")
        kinds[words] = {"rows": rows[:MOST_JOBS], "count": count, "url": wanted.url()}
    return {"jobs": kinds}


urlpatterns = [
    path("projects/", projects_page, name="projects"),
    path("projects/<str:name>/", project_page, name="project"),
    path("projects/<str:name>/limits/", limits_page, name="project-limits"),
]
