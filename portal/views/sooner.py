"""What would start a waiting job sooner: computed when somebody asks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_safe

from jobs.bands import Band
from jobs.scheduler.advise import Advice
from portal import broker
from portal.forms import spec_text
from portal.models import Job, User
from portal.queries import job as query
from portal.queries import sooner
from portal.views.requests import PageRequest
from portal.views.throttle import one_at_a_time

KEPT_S = 60.0
"""An answer, as long as the queue is the same; it says when it was found."""


@dataclass(frozen=True)
class Found:
    """A change as its page tells it."""

    sentence: str
    relaunch: bool
    """Whether it takes a new job: one that is held is released as it is."""
    query: str
    """Of the relaunch page: what differs, by fields of the form."""
    by_hand: bool
    """Whether it takes something away that a line of the script may ask for."""


@dataclass(frozen=True)
class Answer:
    """What was tried, and when."""

    at: datetime
    outside: bool = False
    """So many wait that the job was not reached."""
    found: Found | None = None


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
    found = Found(**known["found"]) if known["found"] else None
    return Answer(datetime.fromisoformat(known["at"]), known["outside"], found)


def _worked_out(job: Job, now: datetime) -> Answer:
    try:
        advice = sooner.advice(job, now)
    except sooner.NotReached:
        return Answer(now, outside=True)
    return Answer(now, found=_found(job, advice) if advice else None)


def _found(job: Job, advice: Advice) -> Found:
    spec = spec_text.stored(job.spec)
    changed = replace(
        spec,
        resources=advice.job.resources,
        walltime_s=advice.job.walltime_s,
        partition=advice.job.partition,
        band=advice.job.band,
    )
    as_is = replace(spec, partition=job.partition.name, band=Band(job.band))
    before = spec_text.form_values(as_is)
    after = spec_text.form_values(changed)
    fields = {name: value for name, value in after.items() if value != before[name]}
    alone = job.array_index is not None
    leaves_array = (
        alone and advice.job.array_limit is None and bool(spec.array and spec.array.limit)
    )
    by_hand = "" in fields.values() or not (fields or leaves_array)
    if alone:
        fields["array"] = str(job.array_index)
    return Found(
        sentence=advice.sentence,
        relaunch=not job.held,
        query=f"?{urlencode(fields)}" if fields else "",
        by_hand=by_hand,
    )


urlpatterns = [path("jobs/<int:pk>/sooner/", sooner_page, name="sooner")]
