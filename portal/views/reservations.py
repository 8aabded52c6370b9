"""Nodes that are set aside for a time: everybody sees them, administrators change them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path, reverse, reverse_lazy
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.actions.reservations import release, reserve
from portal.forms.reservations import ReservationForm, reservation_initial
from portal.models import Node, Reservation
from portal.queries import reservations
from portal.views.previewed import for_administrators, form_page, given
from portal.views.requests import PageRequest

_CRUMBS = [("Nodes", reverse_lazy("nodes")), ("Reservations", reverse_lazy("reservations"))]


@require_safe
def reservations_page(request: PageRequest) -> HttpResponse:
    """Those to come and under way, or those that are over."""
    wanted, now = reservations.Filter.read(request.GET), timezone.now()
    page = reservations.page(wanted=wanted, number=request.GET.get("page", "1"), now=now)
    context = {
        "filter": wanted,
        "page": page,
        "now": now,
        "nodes": Node.objects.values_list("name", flat=True),
    }
    return render(request, "nodes/reservations.html", context)


@for_administrators
def add(request: PageRequest) -> HttpResponse:
    """Set nodes aside."""
    initial = {"nodes": request.GET.getlist("node")}
    form = ReservationForm(given(request), initial=initial)
    page = {"title": "Reserve nodes", "verb": "Reserve them"}
    return _page(request, form, None, page)


@for_administrators
def edit(request: PageRequest, pk: int) -> HttpResponse:
    """Change it, or end it."""
    row = get_object_or_404(Reservation, pk=pk)
    ending = "remove" in request.POST
    data = request.POST if request.method == "POST" else None
    form = ReservationForm(data, initial=reservation_initial(row))
    page = {
        "title": f"Reservation {row.name}",
        "removable": True,
        "removing": ending,
        "verb": "End it" if ending else "Save",
    }
    return _page(request, form, row, page)


def _page(
    request: PageRequest, form: ReservationForm, row: Reservation | None, page: dict[str, Any]
) -> HttpResponse:
    ending = page.get("removing", False)

    def change(**by: Any) -> None:
        if row and ending:
            release(reservation=row, **by)
            return
        data = {name: value for name, value in form.cleaned_data.items() if name != "previewed"}
        reserve(reservation=row, **data, **by)

    def overlapping(now: datetime) -> dict[str, Any]:
        names = ("nodes", "starts_at", "projects", "users")
        asked = {name: form.cleaned_data[name] for name in names}
        jobs = [] if ending else reservations.still_running(**asked, now=now)
        return {"overlapping": jobs, "reserving": not ending}

    there = reverse("reservations")
    page = {"crumbs": _CRUMBS, "back": there, **page}
    return form_page(request, form, change, page, lambda: there, overlapping)


urlpatterns = [
    path("reservations/", reservations_page, name="reservations"),
    path("add-reservation/", add, name="add-reservation"),
    path("reservations/<int:pk>/", edit, name="edit-reservation"),
]
