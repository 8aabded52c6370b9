"""The page of a job, and what its buttons do."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.actions.cancel import cancel
from portal.actions.hold import hold, release
from portal.actions.retention import pin
from portal.forms import spec_text
from portal.models import Job
from portal.queries import checkpoints, why
from portal.queries import job as query
from portal.views import hold as holds
from portal.views.refusals import refuse_strangers
from portal.views.requests import PageRequest

MOST_WATCHED = 50
"""Nodes of a gang whose samples make its open page look again."""


@require_safe
def job_page(request: PageRequest, pk: int) -> HttpResponse:
    """The whole page, or the live part that `?part=` names."""
    found = _job(pk)
    match request.GET.get("part"):
        case "now":
            listed = request.GET.get("watched", "").split(",")
            watched = [int(pk) for pk in listed if len(pk) < 19 and pk.isdecimal()]
            return render(request, "job/job.html#now", _now(found, watched[:MOST_WATCHED]))
        case "why":
            return render(request, "job/job.html#why", _why(request, found))
        case "record":
            return render(request, "job/job.html#record", _record(found))
        case "cancel":
            return render(request, "job/job.html#cancel", {"job": found})
    context = _now(found) | _why(request, found) | _record(found) | _told(found)
    context["selected_rank"] = request.GET.get("rank", "0")
    return render(request, "job/job.html", context)


def _job(pk: int) -> Job:
    found = query.find(pk)
    if found is None:
        raise Http404(f"There is no job {pk}.")
    return found


def _now(job: Job, watched: list[int] | None = None) -> dict[str, Any]:
    """How it stands: the state line, its allocation.

    `watched` are the nodes whose topics the open page listens to; None: it is being opened. A job
    that starts while its page is open runs on nodes the page could not know of: it asks again
    by the clock instead.
    """
    attempts = query.attempts(job)
    latest = attempts[0] if attempts else None
    parts = list(latest.allocations.all()) if latest else []
    nodes = [part.node_id for part in parts][:MOST_WATCHED]
    return {
        "job": job,
        "attempts": attempts,
        "latest": latest,
        "since": query.waits_since(job, latest),
        "allocations": parts,
        "watched": nodes if watched is None else watched,
        "unwatched": watched is not None and not set(nodes) <= set(watched),
        "practice": any(part.node.simulated for part in parts),
        "resumable": job.ended and query.resumable(job),
    }


def _why(request: PageRequest, job: Job) -> dict[str, Any]:
    """Why it waits, if it does."""
    if not job.waiting:
        return {"job": job, "why": None}
    return {
        "job": job,
        "why": why.of(job, timezone.now()),
        "since": query.waits_since(job, job.attempts.order_by("-number").first()),
        "awaited": query.awaited(job),
        "readers": (job.owner, request.user),
        "resumable": False,
    }


def _told(job: Job) -> dict[str, Any]:
    """What it was told when it was submitted."""
    script = job.script.text
    only = spec_text.only_in_script(script, job.spec, job.submitted_at)
    return {"script": script, "only_in_script": only}


def _record(job: Job) -> dict[str, Any]:
    """What it left behind: checkpoints, attempts, events."""
    return {
        "job": job,
        "checkpoints": query.checkpoints(job),
        "interval": checkpoints.interval(job, timezone.now()),
        "events": query.events(job),
        "array_states": query.array_states(job),
    }


@require_http_methods(["GET", "HEAD", "POST"])
def cancel_job(request: PageRequest, pk: int) -> HttpResponse:
    """Ask for confirmation; end it when it was given."""
    found = _changeable(request, pk)
    if request.method != "POST":
        return render(request, "job/cancel.html", {"job": found})
    if not cancel(job=found, actor=request.user, now=timezone.now()):
        messages.info(request, f"There was nothing to cancel: job {found.label} has ended or ends.")
    elif found.ended:
        messages.success(request, f"Job {found.label} was cancelled before it started.")
    else:
        messages.success(
            request, f"Job {found.label} is being ended: it gets a signal and time to save itself."
        )
    return redirect("job", pk=pk)


@require_http_methods(["GET", "HEAD", "POST"])
def hold_job(request: PageRequest, pk: int) -> HttpResponse:
    """Keep it from starting. Administrators are asked why."""
    found = _changeable(request, pk)
    form, called = holds.sent(request), f"job {found.label}"
    if not form.is_valid():
        back = reverse("job", args=[pk])
        return holds.ask(request, form, called=called, owner=found.owner, back=back)
    why = form.cleaned_data["why"]
    if hold(job=found, actor=request.user, now=timezone.now(), why=why):
        messages.success(request, f"Job {found.label} is held: it will not start until released.")
    else:
        messages.info(request, f"Job {found.label} was not held: it no longer waits, or is held.")
    return redirect("job", pk=pk)


@require_POST
def release_job(request: PageRequest, pk: int) -> HttpResponse:
    """Let it wait for its turn again."""
    found = _changeable(request, pk)
    done = release(job=found, actor=request.user, now=timezone.now())
    found.refresh_from_db(fields=["held", "held_by_admin"])
    if done and found.held:
        messages.success(request, _still_held(found))
    elif done:
        messages.success(request, f"Job {found.label} was released and waits for its turn.")
    elif found.waiting and found.held_by_admin:
        messages.error(request, f"Job {found.label} is held by an administrator, who releases it.")
    else:
        messages.info(request, f"Job {found.label} was not held.")
    return redirect("job", pk=pk)


@require_POST
def pin_checkpoint(request: PageRequest, pk: int, checkpoint: int, pinned: bool) -> HttpResponse:
    """Keep it whatever is removed, or no longer."""
    found = _changeable(request, pk)
    row = found.checkpoints.filter(pk=checkpoint).first()
    if row is None:
        messages.info(request, "That checkpoint is no longer there.")
        return redirect("job", pk=pk)
    pin(checkpoint=row, pinned=pinned, actor=request.user, now=timezone.now())
    kept = "is kept" if pinned else "may be removed when others are newer"
    messages.success(request, f"{row.name} {kept}.")
    return redirect("job", pk=pk)


def _still_held(job: Job) -> str:
    if job.held_by_admin:
        return f"You hold job {job.label} no longer, but an administrator does, who releases it."
    return f"Administrators hold job {job.label} no longer, but its owner, {job.owner}, does."


def _changeable(request: PageRequest, pk: int) -> Job:
    found = _job(pk)
    refuse_strangers(request, found, called=f"Job {found.label}")
    return found


urlpatterns = [
    path("jobs/<int:pk>/", job_page, name="job"),
    path("jobs/<int:pk>/cancel/", cancel_job, name="cancel-job"),
    path("jobs/<int:pk>/hold/", hold_job, name="hold-job"),
    path("jobs/<int:pk>/release/", release_job, name="release-job"),
    path(
        "jobs/<int:pk>/checkpoints/<int:checkpoint>/pin/",
        pin_checkpoint,
        {"pinned": True},
        name="pin-checkpoint",
    ),
    path(
        "jobs/<int:pk>/checkpoints/<int:checkpoint>/unpin/",
        pin_checkpoint,
        {"pinned": False},
        name="unpin-checkpoint",
    ),
]
