"""A new job: the form, the live check of what was typed, and a relaunch with the same settings."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import trigger_client_event

from jobs.directives import SpecErrors, check, parse
from jobs.rules import SpecError
from portal.actions import submit
from portal.forms import spec_text
from portal.forms.submit import FIRST_SCRIPT, SubmitForm
from portal.models import Checkpoint, Job, User
from portal.queries import job as query
from portal.queries import partitions, room
from portal.views.refusals import refuse_strangers
from portal.views.requests import PageRequest
from portal.views.throttle import one_at_a_time

_SETTINGS = {
    "name": "name",
    "project": "project",
    "partition": "partition",
    "band": "band",
    "nodes": "nodes",
    "max_switches": "max_switches",
    "gpus_per_node": "gpus_per_node",
    "shards": "shards",
    "gpu_model": "gpu_model",
    "tasks_per_node": "tasks_per_node",
    "cpus_per_task": "cpus_per_task",
    "memory": "memory_mib",
    "walltime": "walltime_s",
    "workdir": "workdir",
    "environment": "environment",
    "array": "array",
    "dependency": "dependencies",
    "begin": "begin_at",
    "held": "held",
}
"""A field of the form -> what a script's directives set in its place."""


@require_http_methods(["GET", "HEAD", "POST"])
def submit_page(request: PageRequest) -> HttpResponse:
    """The empty form; or take a job in."""
    if request.method != "POST":
        initial = {"script": FIRST_SCRIPT}
        return _page(request, SubmitForm(initial=initial, user=request.user))
    return _take(request, SubmitForm(request.POST, request.FILES, user=request.user), None)


@require_http_methods(["GET", "HEAD", "POST"])
def relaunch(request: PageRequest, pk: int) -> HttpResponse:
    """The form filled with a job's settings; with `?checkpoint=` it goes on from that one."""
    old = _relaunchable(request, pk)
    saved = query.complete_checkpoints(old)
    if request.method == "POST":
        form = SubmitForm(request.POST, request.FILES, user=request.user, checkpoints=saved)
        return _take(request, form, old, saved)
    initial = _settings_of(old, timezone.localtime())
    wanted = request.GET.get("checkpoint", "")
    initial["checkpoint"] = wanted if any(str(row.pk) == wanted for row in saved) else ""
    form = SubmitForm(initial=initial, user=request.user, checkpoints=saved)
    return _page(request, form, old, saved)


def _relaunchable(request: PageRequest, pk: int) -> Job:
    found = query.find(pk)
    if found is None:
        raise Http404(f"There is no job {pk}.")
    refuse_strangers(request, found, called=f"Job {found.label}", verb="relaunch")
    return found


def _settings_of(old: Job, now: datetime) -> dict[str, Any]:
    """Its script, and in the form only what the script does not say itself."""
    script = old.script.text
    read = spec_text.readable(old.spec)
    values = spec_text.form_values(read) if read else {}
    values |= {"project": old.project.name, "partition": old.partition.name}
    alone = check(script, {}, now).spec
    said = spec_text.form_values(alone) if alone else {}
    differs = {name: value for name, value in values.items() if said.get(name, "") != value}
    return differs | {"script": script}


def _take(
    request: PageRequest, form: SubmitForm, old: Job | None, saved: list[Checkpoint] | None = None
) -> HttpResponse:
    if not form.is_valid():
        return _page(request, form, old, saved, status=422)
    now = timezone.localtime()
    chosen = form.cleaned_data["checkpoint"]
    start = next((row.path for row in saved or () if str(row.pk) == chosen), "")
    try:
        asked = submit.read(
            owner=request.user,
            script=form.cleaned_data["script"],
            overrides=form.overrides,
            now=now,
            key=form.key,
        )
        job = submit.submit(
            owner=request.user,
            spec=asked.spec,
            project=asked.project,
            partition=asked.partition,
            key=form.key,
            now=now,
            relaunch_of=old,
            resume_from=start,
        )
    except SpecErrors as refused:
        form.refuse(refused.errors)
        return _page(request, form, old, saved, status=422)
    many = asked.spec.array and len(asked.spec.array.indices)
    what = f"Array {job.array_id} of {many:,} jobs" if many else f"Job {job.label}"
    messages.success(request, f"{what} was submitted.")
    return redirect("job", pk=job.pk)


@require_POST
def check_page(request: PageRequest, pk: int | None = None) -> HttpResponse:
    """What is wrong with the form as typed, and what it would ask for: a part of the page.

    `pk` is the job that is relaunched. The page asks again where the outlook is pending.
    """
    saved = query.complete_checkpoints(_relaunchable(request, pk)) if pk is not None else ()
    form = SubmitForm(request.POST, user=request.user, checkpoints=saved)
    form.is_valid()
    judged = _judge(request, form)
    response = render(request, "submit/check.html", judged)
    if "asked" in judged and judged["outlook"] is None:
        trigger_client_event(response, "outlook-pending")
    return response


def _judge(request: PageRequest, form: SubmitForm) -> dict[str, Any]:
    now = timezone.localtime()
    script = form.cleaned_data.get("script", "")
    overrides = form.overrides
    errors = [SpecError(name, str(text)) for name, found in form.errors.items() for text in found]
    looked = check(script, overrides, now, partitions.usual_walltime_s)
    said = _said(script, now)
    context: dict[str, Any] = {
        "warnings": looked.warnings,
        "said": {name: text for name, text in said.items() if text},
        "overruled": [name for name in said if name in overrides and name != "environment"],
    }
    try:
        if errors:
            raise SpecErrors(tuple(errors))
        asked = submit.read(owner=request.user, script=script, overrides=overrides, now=now)
    except SpecErrors as refused:
        errors = list(refused.errors)
    else:
        context |= {
            "asked": asked,
            "asks_for": spec_text.asks_for(asked.spec.resources),
            "outlook": _outlook(request.user, asked, now),
        }
    lines = [(error, "error") for error in errors] + [(note, "warning") for note in looked.warnings]
    marks = [
        {"line": item.line, "severity": severity, "message": f"{item.field}: {item.message}"}
        for item, severity in lines
        if item.line is not None
    ]
    return context | {"errors": errors, "marks": marks, "form": form}


def _outlook(person: User, asked: submit.Request, now: datetime) -> room.Outlook | None:
    """None while another one is being worked out for this person: it takes a whole pass, and goes
    on though what is typed next has made it outdated."""
    with one_at_a_time("outlook", person) as free:
        if not free:
            return None
        return room.outlook(
            owner=person,
            project=asked.project,
            spec=asked.spec,
            partition=asked.partition,
            now=now,
        )


def _said(script: str, now: datetime) -> dict[str, str]:
    """What the script's own lines say, by field of the form."""
    alone = check(script, {}, now).spec
    if alone is None:
        return {}
    settings = parse(script, now=now).settings
    values = spec_text.form_values(alone) | {
        "dependency": spec_text.waits(alone.dependencies),
        "begin": f"{alone.begin_at:%FT%H:%M}" if alone.begin_at else "",
    }
    return {name: str(values.get(name, "")) for name, key in _SETTINGS.items() if key in settings}


def _page(
    request: PageRequest,
    form: SubmitForm,
    old: Job | None = None,
    saved: list[Checkpoint] | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    context = {
        "form": form,
        "more_used": any(field.value() or field.errors for field in form.more),
        "old": old,
        "only_in_script": old
        and spec_text.only_in_script(old.script.text, old.spec, old.submitted_at),
        "checkpoints": saved,
        "gpu_models": room.gpu_models(),
    }
    return render(request, "submit/submit.html", context, status=status)


urlpatterns = [
    path("jobs/new/", submit_page, name="submit"),
    path("jobs/check/", check_page, name="check-job"),
    path("jobs/<int:pk>/relaunch/", relaunch, name="relaunch"),
    path("jobs/<int:pk>/relaunch/check/", check_page, name="check-relaunch"),
]
