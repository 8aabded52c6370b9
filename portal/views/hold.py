"""What an administrator is asked before somebody's jobs are held: why, for their owner to read."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render

from portal.forms.hold import HoldForm
from portal.models import User
from portal.views.requests import PageRequest


def sent(request: PageRequest) -> HoldForm:
    """The form, filled in where it was sent."""
    return HoldForm(request.POST if request.method == "POST" else None)


def ask(
    request: PageRequest, form: HoldForm, *, called: str, owner: User, back: str
) -> HttpResponse:
    """The page with it. `called` is what the jobs are called, `back` their address."""
    context = {"form": form, "called": called, "owner": owner, "back": back}
    return render(request, "job/hold.html", context, status=422 if form.is_bound else 200)
