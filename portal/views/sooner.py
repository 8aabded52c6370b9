"""What would start a waiting job sooner: computed when somebody asks, and done when they say so."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from django.contrib import messages
from django.core import signing
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from portal import broker
from portal.actions.update import Outdated, update
from portal.models import Job, User
from portal.queries import job as query
from portal.queries import sooner
from portal.views.refusals import refuse_strangers
from portal.views.requests import PageRequest
from portal.views.throttle import one_at_a_time

_SALT = "sooner"
KEPT_S = 60.0
"""An answer, as long as the queue is the same; it says when it was found."""


@dataclass(frozen=True)
class Answer:
    """What was tried, and when."""

    at: datetime
    outside: bool = False
    """So many wait that the job was not reached."""
    sentence: str = ""
    """Of the change that helps; empty where none does."""
    change: str = ""
    """It, signed, for the button that makes it; empty where the job is to be released as it is."""


@require_safe
def sooner_page(request: PageRequest, pk: int) -> HttpResponse:
    """A page of its own, or the part of the job's page when htmx asks."""
    job = query.find(pk)
    if job is None:
        raise Http404(f"There is no job {pk}.")
    context = {"job": job, "answer": _answer(request.user, job) if job.waiting else None}
    template = "job/sooner.html#found" if request.htmx else "job/sooner.html"
    return render(request, template, context)


def _answer(person: User, job: Job) -> Answer | None:
    """Found before, or now; None while another one is being worked out for this person."""
    name = f"sooner:{job.pk}:{sooner.last_event()}"
    if text := broker.kept(name):
        return _read(text)
    with one_at_a_time("sooner", person) as free:
        if not free:
            return None
        answer = _worked_out(job, timezone.localtime())
    broker.keep(name, json.dumps(asdict(answer), default=datetime.isoformat), KEPT_S)
    return answer


def _read(text: str) -> Answer:
    known = json.loads(text)
    return Answer(**known | {"at": datetime.fromisoformat(known["at"])})


def _worked_out(job: Job, now: datetime) -> Answer:
    try:
        found = sooner.found(job, now)
    except sooner.NotReached:
        return Answer(now, outside=True)
    return (
        Answer(now, sentence=found.advice.sentence, change=_signed(job, found))
        if found
        else Answer(now)
    )


def _signed(job: Job, found: sooner.Found) -> str:
    if not found.changes:
        return ""
    told = {"job": job.pk, "detail": found.advice.change, "changes": found.changes}
    return signing.dumps(told, salt=_SALT)


@require_POST
def update_job(request: PageRequest, pk: int) -> HttpResponse:
    """Change a waiting job as its page has offered."""
    job = query.find(pk)
    if job is None:
        raise Http404(f"There is no job {pk}.")
    refuse_strangers(request, job, called=f"Job {job.label}")
    try:
        told = signing.loads(request.POST.get("change", ""), salt=_SALT)
    except signing.BadSignature:
        told = {}
    if told.get("job") != pk:
        raise SuspiciousOperation("No change that was offered for this job.")
    try:
        update(
            job=job, changes=told["changes"], detail=told["detail"], actor=request.user,
            now=timezone.now(),
        )  # fmt: skip
    except Outdated as why:
        messages.error(request, f"Nothing was changed: job {job.label} {why}.")
    else:
        messages.success(request, f"Job {job.label} was changed. {told['detail']}")
    return redirect("job", pk=pk)


urlpatterns = [
    path("jobs/<int:pk>/sooner/", sooner_page, name="sooner"),
    path("jobs/<int:pk>/update/", update_job, name="update-job"),
]
