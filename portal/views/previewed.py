"""Forms of administrators that show what would come of them before they save."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial, wraps
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from portal.actions.preview import preview
from portal.forms.previewed import PreviewedForm
from portal.queries.rights import may_administer
from portal.views.requests import PageRequest

View = Callable[..., HttpResponse]
Change = Callable[..., object]
"""Called with `actor` and `now`; raises `ValidationError`."""


def for_administrators(view: View) -> View:
    """Only whoever may change projects, and what nodes are set aside for."""

    @require_http_methods(["GET", "HEAD", "POST"])
    @wraps(view)
    def guarded(request: PageRequest, **named: str) -> HttpResponse:
        if not may_administer(request.user):
            raise PermissionDenied("Only administrators of the lab change this.")
        return view(request, **named)

    return guarded


def form_page(
    request: PageRequest,
    form: PreviewedForm,
    change: Change,
    page: dict[str, Any],
    there: Callable[[], str],
    more: Callable[[datetime], dict[str, Any]] | None = None,
) -> HttpResponse:
    """The form; then with what would come of it, and what `more` adds to that; then on to where it
    can be seen."""
    context = {"form": form, "verb": "Save", **page}
    if request.method != "POST" or not form.is_valid():
        status = 422 if form.is_bound and form.errors else 200
        return render(request, "projects/form.html", context, status=status)
    # In the lab's time zone, as its sentences tell times.
    now = timezone.localtime()
    by = {"actor": request.user, "now": now}
    try:
        if "save" in request.POST and form.was_previewed:
            change(**by)
            messages.success(request, "Saved.")
            return redirect(there())
        context["preview"] = preview(partial(change, **by), now=now)
        context |= more(now) if more else {}
    except ValidationError as error:
        form.refuse(_by_field(error))
        return render(request, "projects/form.html", context, status=422)
    return render(request, "projects/form.html", context)


def given(request: PageRequest) -> Any:
    """What was sent, also where that is nothing but empty fields."""
    return request.POST if request.method == "POST" else None


def _by_field(error: ValidationError) -> dict[str, list[str]]:
    return error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
