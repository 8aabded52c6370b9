"""What a change would have done with the jobs of a past time: administrators try it."""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from portal.actions import what_if as actions
from portal.forms.what_if import WhatIfForms
from portal.models import WhatIf
from portal.queries import what_if as query
from portal.queries.rights import may_administer
from portal.views.previewed import View, for_administrators, given
from portal.views.requests import PageRequest

ROWS, MOST_ROWS = 3, 30
"""Of projects, in the form."""


def _only_administrators(view: View) -> View:
    @wraps(view)
    def guarded(request: PageRequest, **named: Any) -> HttpResponse:
        if not may_administer(request.user):
            raise PermissionDenied("Only administrators of the lab try changes.")
        return view(request, **named)

    return guarded


@require_safe
@_only_administrators
def what_ifs(request: PageRequest) -> HttpResponse:
    """All that were tried, the newest first."""
    page = query.page(request.GET.get("page", "1"))
    return render(request, "what_if/list.html", {"page": page})


@for_administrators
def ask(request: PageRequest) -> HttpResponse:
    """The form; then on to what comes of it."""
    rows = _rows(request.GET.get("rows", ""))
    forms = WhatIfForms(given(request), rows)
    context = {"forms": forms, "more_rows": min(MOST_ROWS, 2 * rows), "rows": rows}
    if request.method != "POST":
        return render(request, "what_if/form.html", context)
    if forms.is_valid():
        now = timezone.now()
        span = forms.form.span(now)
        try:
            row = actions.ask(
                actor=request.user, since=span.since, until=span.until,
                changes=forms.changes, now=now,
            )  # fmt: skip
        except ValidationError as error:
            forms.form.add_error(None, error)
        else:
            return redirect("what-if", row.pk)
    return render(request, "what_if/form.html", context, status=422)


@require_safe
@_only_administrators
def what_if(request: PageRequest, pk: int) -> HttpResponse:
    """How far it is, or what came of it."""
    row = _find(pk)
    context: dict[str, Any] = {"row": row, "percent": round(100 * row.progress)}
    if row.result is not None:
        context |= {
            "lines": query.lines(row.result, other_nodes=bool(row.changes["nodes"])),
            "projects": query.project_lines(row.result),
            "differ": query.differ(row.result),
        }
    template = "what_if/result.html#found" if request.htmx else "what_if/result.html"
    return render(request, template, context)


@require_POST
@_only_administrators
def cancel(request: PageRequest, pk: int) -> HttpResponse:
    """It is not wanted any more."""
    if actions.cancel(row=_find(pk), actor=request.user, now=timezone.now()):
        messages.success(request, "Cancelled.")
    else:
        messages.info(request, "It had ended already.")
    return redirect("what-if", pk)


@require_POST
@_only_administrators
def again(request: PageRequest, pk: int) -> HttpResponse:
    """The same once more."""
    try:
        row = actions.ask_again(row=_find(pk), actor=request.user, now=timezone.now())
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
        return redirect("what-if", pk)
    return redirect("what-if", row.pk)


def _find(pk: int) -> WhatIf:
    return get_object_or_404(WhatIf.objects.select_related("asked_by"), pk=pk)


def _rows(text: str) -> int:
    known = text.isascii() and text.isdecimal() and len(text) < 5
    return min(MOST_ROWS, max(ROWS, int(text))) if known else ROWS


urlpatterns = [
    path("what-if/", what_ifs, name="what-ifs"),
    path("what-if/new/", ask, name="ask-what-if"),
    path("what-if/<int:pk>/", what_if, name="what-if"),
    path("what-if/<int:pk>/cancel/", cancel, name="cancel-what-if"),
    path("what-if/<int:pk>/again/", again, name="what-if-again"),
]
