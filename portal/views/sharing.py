"""Which GPUs several jobs may use at once: administrators divide them, a node at a time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path, reverse

from portal.actions.sharing import share
from portal.forms.sharing import SharingForm
from portal.models import Node
from portal.queries import lab, sharing
from portal.queries.hits import Hit
from portal.views.lab import ROOM
from portal.views.previewed import for_administrators, form_page, given
from portal.views.requests import PageRequest


@for_administrators
def sharing_page(request: PageRequest) -> HttpResponse:
    """All nodes with GPUs, and how these are divided."""
    context = {
        "page": sharing.page(request.GET.get("page", "1")),
        "events": lab.changes(request.GET.get("events", "1"), lab.SHARING),
    }
    return render(request, "settings/sharing.html", context | ROOM)


@for_administrators
def edit(request: PageRequest, name: str) -> HttpResponse:
    """The GPUs of one node."""
    node = get_object_or_404(Node, name=name.replace("\0", " "))
    cards = sharing.cards(node)
    form = SharingForm(given(request), node=node, cards=cards)

    @transaction.atomic
    def change(**by: Any) -> None:
        for field, card in form.cards.items():
            wanted = {"shards": form.cleaned_data[field], "how": form.cleaned_data["sharing"]}
            try:
                share(gpu=card.gpu, **wanted, **by)
            except ValidationError as error:
                raise _at(field, error) from error

    def staying(now: datetime) -> dict[str, Any]:
        jobs = {job.pk: job for card in cards for job in card.jobs}
        return {"staying": [Hit(jobs[pk]) for pk in sorted(jobs)]}

    there = reverse("sharing")
    page = ROOM | {
        "title": f"Sharing GPUs of {node.name}",
        "crumbs": [*ROOM["crumbs"], ("GPU sharing", there)],
        "back": there,
        "lead": "A GPU of four parts serves four jobs that ask for one part each; 0 parts: one job "
        "alone.",
        "instances": [card for card in cards if card.gpu.mig_mode],
        "events": lab.changes(request.GET.get("events", "1"), lab.SHARING, node=node),
    }
    return form_page(request, form, change, page, lambda: there, staying)


def _at(field: str, error: ValidationError) -> ValidationError:
    """At the field of the GPU that it is about."""
    errors = error.message_dict
    return ValidationError({field if name == "shards" else name: errors[name] for name in errors})


urlpatterns = [
    path("settings/sharing/", sharing_page, name="sharing"),
    path("settings/sharing/<str:name>/", edit, name="edit-sharing"),
]
