"""What administrators change of projects: each form shows what would come of it before it saves."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse, reverse_lazy
from django.utils import timezone

from jobs.bands import Band
from jobs.scheduler.limits import Scope
from portal.actions import projects as actions
from portal.actions.quotas import set_quota
from portal.forms.projects import (
    LendingForm,
    MemberForm,
    ProjectForm,
    QuotaForm,
    quota_initial,
    scope_and_band,
)
from portal.models import Accounting, Membership, Project, Quota
from portal.views.previewed import for_administrators, form_page, given
from portal.views.projects import project_or_404
from portal.views.requests import PageRequest

_ROOM: dict[str, Any] = {"crumbs": [("Projects", reverse_lazy("projects"))], "limits": True}


@for_administrators
def add(request: PageRequest) -> HttpResponse:
    """A new project, at the top or below another one."""
    initial = {"parent": request.GET.get("parent", "").replace("\0", "")}
    form = ProjectForm(given(request), initial=initial)

    def create(**by: Any) -> None:
        data = {**form.cleaned_data}
        data.pop("previewed")
        actions.create(**data, **by)

    def there() -> str:
        return reverse("project", args=[form.cleaned_data["name"]])

    page = {"title": "Add a project", "back": reverse("projects"), "verb": "Add it"} | _ROOM
    return form_page(request, form, create, page, there)


@for_administrators
def edit(request: PageRequest, name: str) -> HttpResponse:
    """Its name, place, shares and what people read about it."""
    project = project_or_404(name)
    initial = {
        field: getattr(project, field)
        for field in ("name", "title", "description", "shares", "lends")
    } | {"parent": project.parent.name if project.parent else ""}
    form = ProjectForm(given(request), project=project, initial=initial)

    def change(**by: Any) -> None:
        _change(Project.objects.get(pk=project.pk), form.cleaned_data, by)

    def there() -> str:
        return reverse("project", args=[form.cleaned_data["name"]])

    return form_page(request, form, change, _of(project, "Edit"), there)


@transaction.atomic
def _change(project: Project, data: dict[str, Any], by: dict[str, Any]) -> None:
    """All of it, or nothing."""
    title, description = data["title"], data["description"]
    actions.rename(project=project, name=data["name"], **by)
    actions.describe(project=project, title=title, description=description, **by)
    actions.move(project=project, parent=data["parent"], **by)
    actions.set_shares(project=project, shares=data["shares"], **by)
    actions.set_lending(project=project, lends=data["lends"], **by)


@for_administrators
def add_member(request: PageRequest, name: str) -> HttpResponse:
    """Somebody may submit to it."""
    project = project_or_404(name)
    form = MemberForm(given(request), project=project, member=None)

    def change(**by: Any) -> None:
        data = form.cleaned_data
        actions.set_member(
            project=project, user=data["user"], shares=data["shares"], lead=data["lead"], **by
        )

    page = _of(project, "Add a member to") | {"verb": "Add them"}
    return form_page(request, form, change, page, partial(_to_members, project))


@for_administrators
def edit_member(request: PageRequest, name: str, username: str) -> HttpResponse:
    """A member's shares; or they are one no more."""
    row = get_object_or_404(
        Membership.objects.select_related("project", "user"),
        project=project_or_404(name), user__username=username.replace("\0", " "),
    )  # fmt: skip
    initial = {"shares": row.shares, "lead": row.lead}
    form = MemberForm(given(request), project=row.project, member=row.user, initial=initial)

    def change(**by: Any) -> None:
        data = form.cleaned_data
        whom: dict[str, Any] = {"project": row.project, "user": row.user}
        if "remove" in request.POST:
            actions.remove_member(**whom, **by)
        else:
            actions.set_member(**whom, shares=data["shares"], lead=data["lead"], **by)

    page = _of(row.project, f"{row.user.username} in") | {
        "removable": True,
        "removing": "remove" in request.POST,
        "verb": "Remove them" if "remove" in request.POST else "Save",
    }
    return form_page(request, form, change, page, partial(_to_members, row.project))


@for_administrators
def edit_quota(request: PageRequest, name: str) -> HttpResponse:
    """The limits of one scope and band, chosen by the URL."""
    project = project_or_404(name)
    scope, band = scope_and_band(request.GET)
    row = Quota.objects.filter(project=project, scope=scope, band=band or "").first()
    form = QuotaForm(given(request), band=band, initial=quota_initial(row))

    def change(**by: Any) -> None:
        set_quota(
            project=project, limits=form.limits, scope=scope, band=band,
            period_days=form.period_days_wanted, **by,
        )  # fmt: skip

    page = _of(project, "Quota of") | {
        "scope": scope,
        "band": band or "",
        "scopes": [(Scope.PROJECT, "all its users together"), (Scope.USER, "each user in it")],
        "bands": list(Band),
        "quotas": list(project.quotas.all()),
    }
    there = reverse("project", args=[project.name]) + "#quotas"
    return form_page(request, form, change, page, lambda: there)


@for_administrators
def top_lending(request: PageRequest) -> HttpResponse:
    """Whether projects without a parent lend to each other."""
    form = LendingForm(given(request), initial={"lends": Accounting.current().lends})

    def change(**by: Any) -> None:
        actions.set_lending_at_the_top(lends=form.cleaned_data["lends"], **by)

    there = reverse("projects")
    return form_page(
        request, form, change, {"title": "Lending", "back": there} | _ROOM, lambda: there
    )


@for_administrators
def archive(request: PageRequest, name: str) -> HttpResponse:
    """Say what it means; do it when confirmed."""
    project = project_or_404(name)
    if request.method != "POST":
        return render(request, "projects/archive.html", {"project": project})
    verb = actions.restore if "restore" in request.POST else actions.archive
    try:
        verb(project=project, actor=request.user, now=timezone.now())
    except ValidationError as error:
        context = {"project": project, "problems": error.messages}
        return render(request, "projects/archive.html", context, status=422)
    words = "takes in jobs again" if verb is actions.restore else "is archived"
    messages.success(request, f"{project} {words}.")
    return redirect("project", project.name)


def _of(project: Project, lead: str) -> dict[str, Any]:
    return {
        "project": project,
        "title": f"{lead} {project.name}",
        "back": reverse("project", args=[project.name]),
        "crumbs": [*_ROOM["crumbs"], (project.name, reverse("project", args=[project.name]))],
        "limits": True,
    }


def _to_members(project: Project) -> str:
    return reverse("project", args=[project.name]) + "#members"


urlpatterns = [
    path("add-project/", add, name="add-project"),
    path("lending/", top_lending, name="top-lending"),
    path("projects/<str:name>/edit/", edit, name="edit-project"),
    path("projects/<str:name>/quota/", edit_quota, name="edit-quota"),
    path("projects/<str:name>/archive/", archive, name="archive-project"),
    path("projects/<str:name>/members/add/", add_member, name="add-member"),
    path("projects/<str:name>/members/of/<str:username>/", edit_member, name="edit-member"),
]
