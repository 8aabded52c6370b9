"""The nodes, each with its GPUs, and what administrators do with one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from jobs.scheduler.words import count
from portal.actions import nodes as actions
from portal.actions import practice
from portal.actions.down import NodeAnswers, declare_off
from portal.forms.nodes import DrainForm
from portal.models import Node, Partition
from portal.queries import findings, nodes, reservations
from portal.queries.rights import may_manage_nodes
from portal.views.requests import PageRequest

View = Callable[..., HttpResponse]


def for_managers(view: View) -> View:
    """Only whoever may manage nodes."""

    @wraps(view)
    def guarded(request: PageRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not may_manage_nodes(request.user):
            raise PermissionDenied("Only administrators of the lab manage its nodes.")
        return view(request, *args, **kwargs)

    return guarded


def by_post(view: View) -> View:
    """Only by a form; else, as from the address bar, on to the page that has the form."""

    @require_http_methods(["GET", "HEAD", "POST"])
    @wraps(view)
    def guarded(request: PageRequest, **named: str) -> HttpResponse:
        if request.method == "POST":
            return view(request, **named)
        return redirect(reverse("node", kwargs=named) if named else "overview")

    return guarded


@require_safe
def nodes_page(request: PageRequest) -> HttpResponse:
    """The page, or only its list when htmx asks."""
    wanted = nodes.Filter.read(request.GET)
    page, shown = nodes.page(wanted=wanted, number=request.GET.get("page", "1"), now=timezone.now())
    context = {"filter": wanted, "page": page, "nodes": shown}
    if request.htmx:
        return render(request, "nodes/nodes.html#list", context)
    context |= {
        "partitions": Partition.objects.values_list("name", flat=True),
        "states": [(value, words) for value, (words, _) in nodes.STATES.items()],
    }
    return render(request, "nodes/nodes.html", context)


@require_safe
def node_page(request: PageRequest, name: str) -> HttpResponse:
    """One node, or only its live part when htmx asks."""
    template = "nodes/node.html#now" if request.htmx else "nodes/node.html"
    return render(request, template, _node_context(name) | {"drain_form": DrainForm()})


def _node_context(name: str) -> dict[str, Any]:
    now = timezone.now()
    found = nodes.one(name=name, now=now)
    if found is None:
        raise Http404
    return {
        "view": found,
        "node": found.node,
        "checkup": findings.checkup(found.node),
        "reserved": reservations.of_node(node=found.node, now=now),
        "parts": nodes.jobs_now(found.node),
        "recent": nodes.jobs_recently(found.node),
        "events": nodes.events(found.node),
    }


@by_post
@for_managers
def probe(request: PageRequest, name: str) -> HttpResponse:
    """Ask the machine again what it is and has."""
    node = actions.probe(
        node=get_object_or_404(Node, name=name), actor=request.user, now=timezone.now()
    )
    if node.problem:
        messages.error(request, f"{node.name} could not be probed; see below what to do.")
    else:
        messages.success(request, f"{node.name} was probed: {summary(node)}.")
    return redirect("node", name)


@by_post
@for_managers
def drain(request: PageRequest, name: str) -> HttpResponse:
    """Let nothing more start there."""
    node = get_object_or_404(Node, name=name)
    form = DrainForm(request.POST)
    if not form.is_valid():
        context = _node_context(name) | {"drain_form": form}
        return render(request, "nodes/node.html", context, status=422)
    reason = form.cleaned_data["reason"]
    if actions.drain(node=node, reason=reason, actor=request.user, now=timezone.now()):
        messages.success(request, f"{name} is drained: what runs goes on, nothing more starts.")
    else:
        messages.info(request, f"{name} was drained already.")
    return redirect("node", name)


@by_post
@for_managers
def resume(request: PageRequest, name: str) -> HttpResponse:
    """Let jobs start there again."""
    node = get_object_or_404(Node, name=name)
    if actions.resume(node=node, actor=request.user, now=timezone.now()):
        messages.success(request, f"{name} takes jobs again.")
    else:
        messages.info(request, f"{name} was not drained.")
    return redirect("node", name)


@for_managers
@require_http_methods(["GET", "HEAD", "POST"])
def off(request: PageRequest, name: str) -> HttpResponse:
    """Say what it would mean that the machine is off; take an administrator's word for it."""
    node = get_object_or_404(Node, name=name)
    if request.method != "POST":
        lost = [part.attempt.job for part in nodes.jobs_now(node)]
        return render(request, "nodes/off.html", {"node": node, "jobs": lost})
    try:
        given_up = len(declare_off(node=node, actor=request.user, now=timezone.now()))
    except NodeAnswers as error:
        messages.error(request, error.message)
    else:
        jobs = f"{count(given_up, 'job')} {'was' if given_up == 1 else 'were'}"
        messages.success(request, f"{name} counts as off and is drained; {jobs} on it.")
    return redirect("node", name)


@for_managers
@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: PageRequest, name: str) -> HttpResponse:
    """Say what would happen; do it when confirmed."""
    node = get_object_or_404(Node, name=name)
    if request.method != "POST":
        return render(request, "nodes/remove.html", {"node": node, "parts": nodes.jobs_now(node)})
    try:
        actions.remove(node=node, actor=request.user, now=timezone.now())
    except actions.NodeBusy as error:
        messages.error(request, error.message)
        return redirect("node", name)
    messages.success(request, f"{name} is no longer a node of this lab.")
    return redirect("nodes")


@for_managers
@require_http_methods(["GET", "HEAD", "POST"])
def remove_practice(request: PageRequest) -> HttpResponse:
    """Say what would happen; take the practice lab away when confirmed."""
    if request.method != "POST":
        context = {"jobs": practice.jobs_there()}
        return render(request, "nodes/remove_practice.html", context)
    practice.remove(actor=request.user, now=timezone.now())
    if Node.objects.filter(simulated=True).exists():
        messages.info(
            request,
            "The practice lab is going: its jobs are being cancelled, and each of its nodes "
            "leaves when the last one there has ended.",
        )
    else:
        messages.success(
            request,
            "The practice lab is gone. To have it back, run `manage.py practice up` and start "
            "Carrel anew.",
        )
    return redirect("overview")


def summary(node: Node) -> str:
    """What a probe found, in a few words."""
    gpus = count(node.gpus.filter(present=True).count(), "GPU")
    return f"{gpus}, {node.cpus} CPUs, {node.memory_mib:,} MiB"


urlpatterns = [
    path("nodes/", nodes_page, name="nodes"),
    path("nodes/<str:name>/", node_page, name="node"),
    path("nodes/<str:name>/probe/", probe, name="probe-node"),
    path("nodes/<str:name>/drain/", drain, name="drain-node"),
    path("nodes/<str:name>/resume/", resume, name="resume-node"),
    path("nodes/<str:name>/off/", off, name="declare-off"),
    path("nodes/<str:name>/remove/", remove, name="remove-node"),
    path("practice/remove/", remove_practice, name="remove-practice"),
]
