"""What is wrong with nodes: cleared by administrators, who also say what must be so there."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils import timezone

from portal.actions import findings
from portal.actions.checks import set_checks
from portal.forms.checks import ChecksForm
from portal.models import Finding, Node
from portal.views.previewed import for_administrators, given
from portal.views.requests import PageRequest


@for_administrators
def clear(request: PageRequest, name: str, number: int) -> HttpResponse:
    """Somebody has seen to it."""
    node = get_object_or_404(Node, name=name)
    if request.method != "POST":
        return redirect("node", name)
    found = get_object_or_404(Finding, pk=number, node=node)
    if findings.clear(finding=found, actor=request.user, now=timezone.now()):
        messages.success(
            request,
            f"{found.meaning.title}: cleared. What is still so, or happens again, is found again.",
        )
    else:
        messages.info(request, f"{found.meaning.title}: that was over already.")
    return redirect("node", name)


@for_administrators
def edit_checks(request: PageRequest, name: str) -> HttpResponse:
    """What must be so on one node."""
    node = get_object_or_404(Node, name=name)
    form = ChecksForm(given(request), node=node)
    if request.method == "POST" and form.is_valid():
        try:
            set_checks(nodes=[node], actor=request.user, now=timezone.now(), **form.cleaned_data)
            messages.success(request, "Saved. The node is looked at within seconds.")
            return redirect("node", name)
        except ValidationError as error:
            form.add_error(None, error)
    status = 422 if form.is_bound else 200
    return render(request, "nodes/checks.html", {"node": node, "form": form}, status=status)


urlpatterns = [
    path("nodes/<str:name>/findings/<int:number>/clear/", clear, name="clear-finding"),
    path("nodes/<str:name>/checks/", edit_checks, name="edit-checks"),
]
