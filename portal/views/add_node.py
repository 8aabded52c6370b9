"""Add a node: where it is, whose key it shows, then what it has.

Each machine on the way, bastions first, shows its host key for a person to confirm; only a
confirmed one is gone through. What was typed and confirmed so far travels with the form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from jobs.nodes.ssh import HostKey
from jobs.nodes.transport import NodeError
from portal.actions import nodes as actions
from portal.forms.nodes import AddNodeForm
from portal.views.nodes import for_managers, summary
from portal.views.requests import PageRequest


@dataclass(frozen=True)
class Hop:
    """A machine on the way to the node, or the node itself (the last one)."""

    host: str
    port: int
    user: str

    def with_key(self, host_key: str) -> dict[str, Any]:
        return {"host": self.host, "port": self.port, "user": self.user, "host_key": host_key}


@for_managers
@require_http_methods(["GET", "HEAD", "POST"])
def add_node(request: PageRequest) -> HttpResponse:
    """The form; after it one page per machine to confirm its key; then the node."""
    form = AddNodeForm(request.POST or None)
    if not form.is_valid() or "back" in request.POST:
        return _form_page(request, form)
    hops = _hops(form.cleaned_data)
    confirmed = request.POST.getlist("host_key")[: len(hops)]
    try:
        for line in confirmed:
            HostKey.parse(line)
    except ValueError as error:
        form.add_error(None, str(error))
        return _form_page(request, form)
    if len(confirmed) == len(hops):
        return _add(request, form, hops, confirmed)
    return _confirm(request, form, hops, confirmed)


def _hops(data: dict[str, Any]) -> list[Hop]:
    return [*(Hop(**bastion) for bastion in data["bastions"]),
            Hop(data["host"], data["port"], data["login"])]  # fmt: skip


def _confirm(
    request: PageRequest, form: AddNodeForm, hops: list[Hop], confirmed: list[str]
) -> HttpResponse:
    hop = hops[len(confirmed)]
    known = zip(hops, confirmed, strict=False)
    try:
        key: HostKey = actions.scan(
            host=hop.host, port=hop.port, jump=[passed.with_key(text) for passed, text in known]
        )
    except NodeError as error:
        return _form_page(request, form, error=error)
    context = {
        "form": form,
        "hop": hop,
        "key": key,
        "key_line": f"{key.kind} {key.base64}",
        "confirmed": confirmed,
        "step": len(confirmed) + 1,
        "steps": len(hops),
        "bastion": len(confirmed) < len(hops) - 1,
    }
    return render(request, "nodes/confirm.html", context)


def _add(
    request: PageRequest, form: AddNodeForm, hops: list[Hop], confirmed: list[str]
) -> HttpResponse:
    data = form.cleaned_data
    try:
        node = actions.add(
            name=data["name"], host=data["host"], port=data["port"], login=data["login"],
            host_key=confirmed[-1],
            jump=[hop.with_key(key) for hop, key in zip(hops[:-1], confirmed, strict=False)],
            partition=data["partition"], actor=request.user, now=timezone.now(),
        )  # fmt: skip
    except ValidationError as error:
        for field, wrong in error.message_dict.items():
            form.add_error(field if field in form.fields else None, wrong)
        return _form_page(request, form)
    if node.problem:
        messages.warning(
            request, f"{node.name} was added but could not be probed yet; see below what to do."
        )
    else:
        messages.success(request, f"{node.name} is a node now: {summary(node)}.")
    return redirect("node", node.name)


def _form_page(
    request: PageRequest, form: AddNodeForm, *, error: NodeError | None = None
) -> HttpResponse:
    context = {"form": form, "error": error, "public_key": actions.public_key()}
    return render(request, "nodes/add.html", context, status=422 if form.errors or error else 200)


urlpatterns = [path("add-node/", add_node, name="add-node")]
