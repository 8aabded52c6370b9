"""What administrators say of a node: its features, and the switches above it."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path, reverse

from portal.actions.describe import describe
from portal.forms.describe import DescribeForm
from portal.models import Node
from portal.queries import lab, nodes
from portal.views.previewed import for_administrators, form_page, given
from portal.views.requests import PageRequest


@for_administrators
def edit(request: PageRequest, name: str) -> HttpResponse:
    """Those of one node."""
    node = get_object_or_404(Node, name=name.replace("\0", " "))
    form = DescribeForm(given(request), node=node, paths=nodes.paths(but=node))

    def change(**by: Any) -> None:
        describe(nodes=[node], **form.terms, **by)

    there = reverse("node", args=[node.name])
    page = {
        "title": f"Features and switches of {node.name}",
        "crumbs": [("Nodes", reverse("nodes")), (node.name, there)],
        "back": there,
        "lead": "What a probe cannot find. Jobs that run there go on; what waits is looked at "
        "anew.",
        "events": lab.changes(request.GET.get("events", "1"), lab.NODE, node=node),
    }
    return form_page(request, form, change, page, lambda: there)


urlpatterns = [
    path("nodes/<str:name>/describe/", edit, name="describe-node"),
]
