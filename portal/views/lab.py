"""What administrators set for the whole lab, on one page with who changed it; and their forms."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path, reverse, reverse_lazy

from jobs.scheduler.policy import Order
from portal.actions import accounting
from portal.actions.partitions import set_terms
from portal.actions.policy import set_policy
from portal.forms.charging import ChargingForm
from portal.forms.partitions import PartitionForm
from portal.forms.policy import BACKFILLS, ORDERS, PolicyForm
from portal.models import Accounting, Partition, SchedulingPolicy
from portal.queries import lab, partitions
from portal.views.previewed import for_administrators, form_page, given
from portal.views.requests import PageRequest

ROOM: dict[str, Any] = {
    "crumbs": [("Settings", reverse_lazy("settings"))],
    "back": reverse_lazy("settings"),
}


@for_administrators
def settings_page(request: PageRequest) -> HttpResponse:
    """All of it, with the last changes."""
    found = lab.settings()
    context = {
        "found": found,
        "order": ORDERS[found.policy.policy.order],
        "backfill": BACKFILLS[found.policy.policy.backfill],
        "events": lab.changes(request.GET.get("events", "1")),
    }
    return render(request, "settings/settings.html", context)


@for_administrators
def policy(request: PageRequest) -> HttpResponse:
    """Who goes first, who may pass whom, and who makes room for whom."""
    form = PolicyForm(given(request), row=SchedulingPolicy.current())

    def change(**by: Any) -> None:
        set_policy(**form.terms, **by)

    def warned(now: datetime) -> dict[str, Any]:
        return {"warnings": form.warnings}

    page = _page(request, "Scheduling policy", lab.POLICY)
    page["lead"] = (
        "For the whole cluster. What runs goes on; what waits is looked at anew. Points are set "
        "for each partition, the half-life with what is charged."
    )
    return form_page(request, form, change, page, _there, warned)


@for_administrators
def partition(request: PageRequest, name: str) -> HttpResponse:
    """The bands, walltimes and weights of one."""
    row = get_object_or_404(Partition, name=name.replace("\0", " "))
    form = PartitionForm(given(request), row=row)

    def change(**by: Any) -> None:
        set_terms(partition=row, **form.terms, **by)

    def beyond(now: datetime) -> dict[str, Any]:
        then = Partition(
            max_walltime_s=form.terms["max_walltime_s"], allowed_bands=form.terms["allowed_bands"]
        )
        return {"beyond": partitions.beyond(row, then)}

    page = _page(request, f"Partition {row.name}", lab.PARTITION, detail=row.name)
    page["lead"] = "Bands and walltimes hold for jobs to come, points for those that wait, too."
    if SchedulingPolicy.current().policy.order is not Order.PRIORITY:
        page["lead"] += " By the policy in force jobs do not go by priority: points decide nothing."
    return form_page(request, form, change, page, _there, beyond)


@for_administrators
def charging(request: PageRequest) -> HttpResponse:
    """What GPUs, CPUs and memory cost, and how use fades."""
    form = ChargingForm(given(request), row=Accounting.current())

    @transaction.atomic
    def change(**by: Any) -> None:
        accounting.set_terms(**form.terms, **by)
        for model, weight in form.weights.items():
            accounting.set_weight(gpu_model=model, weight=weight, **by)

    page = _page(request, "Charging", lab.CHARGING)
    page["lead"] = (
        "What a second of each costs, in weighted GPU-seconds. What was used before stays charged "
        "as it was; the half-life holds for that, too."
    )
    return form_page(request, form, change, page, _there)


def _there() -> str:
    return reverse("settings")


def _page(
    request: PageRequest, title: str, kinds: tuple[str, ...], **only: object
) -> dict[str, Any]:
    events = lab.changes(request.GET.get("events", "1"), kinds, **only)
    return {"title": title, "events": events} | ROOM


urlpatterns = [
    path("settings/", settings_page, name="settings"),
    path("settings/policy/", policy, name="edit-policy"),
    path("settings/partitions/<str:name>/", partition, name="edit-partition"),
    path("settings/charging/", charging, name="edit-charging"),
]
