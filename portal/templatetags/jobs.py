"""Template filters for the rooms that show jobs: `{% load jobs %}`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from django import forms, template
from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from jobs.lifecycle import Reason
from jobs.scheduler.words import capital, count, listed, span
from portal.actions import leases
from portal.forms import spec_text
from portal.models import Allocation, Checkpoint, Event, Job
from portal.queries.queue import Filter
from portal.queries.room import Outlook
from portal.queries.why import JOBS_NAMED, LABEL

register = template.Library()

_WAITING = {
    Reason.NONE: "Waits for the next scheduling pass.",
    Reason.RESOURCES: "Waits for enough free GPUs, CPUs or memory.",
    Reason.PRIORITY: "Others are ahead of it.",
    Reason.BEGIN_TIME: "Its begin time has not come.",
    Reason.DEPENDENCY: "Waits for another job.",
    Reason.DEPENDENCY_NEVER: "The job it waits for did not end as asked; it will never start.",
    Reason.ARRAY_LIMIT: "As many of its array run as were allowed at once.",
    Reason.RESERVATION: "Its nodes are reserved for others.",
    Reason.QUOTA_GPUS: "Its project has as many GPUs as its quota allows.",
    Reason.QUOTA_USER_GPUS: "Its owner has as many GPUs as the quota allows.",
    Reason.QUOTA_GPU_HOURS: "The GPU-hours of its quota are used up.",
    Reason.QUOTA_JOBS: "As many jobs of its project run as its quota allows.",
    Reason.QUOTA_USER_JOBS: "As many jobs of its owner run as the quota allows.",
    Reason.HELD_USER: "Held; it will not start until released.",
    Reason.HELD_ADMIN: "Held by an administrator; it will not start until one releases it.",
    Reason.HELD_LAUNCH: "Held, since it could not be started.",
    Reason.HELD_REQUEUE: "Held, since it lost its node again and again.",
    Reason.NODE_DOWN: "The nodes it could use are down or drained.",
    Reason.PARTITION_DOWN: "No node of its partition takes jobs.",
    Reason.BAD_CONSTRAINTS: "No node can hold it any more.",
    Reason.CLEANING: "Its last attempt is being cleared away.",
    Reason.PREEMPTED: "It made room for another job.",
}
_ADVICE = {
    Reason.NON_ZERO_EXIT: "The end of the log usually says why.",
    Reason.SIGNALED: "The end of the log may say why; a SIGKILL is often the memory's end.",
    Reason.TIME_LIMIT: "Relaunch it with a longer walltime.",
    Reason.OUT_OF_MEMORY: "Relaunch it with more memory, or let it need less.",
    Reason.NODE_RESTARTED: "Relaunch it.",
    Reason.RUN_LOST: "Relaunch it.",
    Reason.NODE_LOST: "Relaunch it; without --no-requeue it comes back by itself.",
    Reason.LAUNCH_FAILURE: "Correct what it names, then relaunch the job.",
    Reason.DEADLINE: "Relaunch it with a later deadline or a shorter walltime.",
    Reason.PREEMPTED: "Relaunch it; without --no-requeue it comes back by itself.",
    Reason.DEPENDENCY_NEVER: "Cancel it, or relaunch it without the dependency.",
    Reason.HELD_LAUNCH: "Look at the node and the working directory, then release it.",
    Reason.HELD_REQUEUE: "Look at what its attempts say of the nodes, then release it.",
    Reason.BAD_CONSTRAINTS: "Cancel it and ask for less, or have a node added.",
}
_CUT_SHORT = (
    Reason.TIME_LIMIT,
    Reason.OUT_OF_MEMORY,
    Reason.NODE_RESTARTED,
    Reason.RUN_LOST,
    Reason.NODE_LOST,
    Reason.PREEMPTED,
)
"""Of these, a relaunch can go on where the job was."""
_EVENTS = {
    "submitted": "Submitted",
    "cancel": "Its end was asked for",
    "person password set": "Password of a person set",
    "held": "Held",
    "released": "Released",
    "preempts": "Room is made for it",
    "claim dropped": "Room is made for it no more",
    "pruned": "Checkpoints removed",
    "pinned": "Checkpoint pinned",
    "unpinned": "Checkpoint unpinned",
}


@register.filter
def why_waiting(job: Job) -> str:
    """The reason as a sentence, the scheduler's own if it gave one."""
    return job.detail or _WAITING.get(_reason(job), job.reason)


@register.filter
def on_node_loss(parts: Iterable[Allocation]) -> str:
    """What becomes of a running job that loses a node. A gang goes on elsewhere as a whole."""
    fences = {part.fence for part in parts}
    if Allocation.Fence.NEVER in fences:
        return "Should its node be out of reach, it waits for it: it asked not to be started twice."
    if Allocation.Fence.LATER in fences:
        return (
            "Should its node be out of reach, it waits for it until it has a complete checkpoint "
            "to go on from elsewhere."
        )
    after_s = settings.LEASE_S + leases.MARGIN_S
    return f"Should its node be lost, it goes on elsewhere after about {span(after_s)}."


@register.filter
def linked_jobs(sentence: str) -> SafeString:
    """The sentence with the jobs it names as links: `job 17`, `jobs 17, 18_2 and 3 others`."""
    pieces = []
    done = 0
    for named in JOBS_NAMED.finditer(sentence):
        for found in re.finditer(LABEL, named[0]):
            start, end = (named.start() + place for place in found.span())
            pieces.append((sentence[done:start], _job_url(found[0]), found[0]))
            done = end
    links = format_html_join("", '{}<a href="{}">{}</a>', pieces)
    return format_html("{}{}", links, sentence[done:])


def _job_url(label: str) -> str:
    number, is_task, index = label.partition("_")
    return reverse("task", args=[number, index]) if is_task else reverse("job", args=[number])


@register.filter
def advice(job: Job, resumable: bool) -> str:
    """What would help a job that ended badly or can not start; empty where nothing would.

    `resumable`: it left a complete checkpoint.
    """
    if job.active or (job.waiting and _reason(job) is Reason.PREEMPTED):
        return ""
    words = _ADVICE.get(_reason(job), "")
    if resumable and _reason(job) in _CUT_SHORT:
        words += " It can go on from its last complete checkpoint."
    return words


def _reason(job: Job) -> Reason:
    return Reason(job.reason) if job.reason in set(Reason) else Reason.NONE


@register.filter
def ordinal_place(place: int, of: int) -> str:
    """`next of 12`, `3rd of 12`."""
    if place == 1:
        return f"next of {of:,}" if of > 1 else "next"
    ending = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{ending} of {of:,}"


@register.filter
def last_allocations(job: Job) -> list[Allocation]:
    """Its parts in the last attempt, from what was fetched with the row."""
    latest = next(iter(job.attempts.all()), None)
    return list(latest.allocations.all()) if latest else []


@register.filter
def url_with(filter_: Filter, changes: str) -> str:
    """A link to the same filter with changes: `{{ filter|url_with:'state=all&mine=' }}`."""
    wanted: dict[str, str | bool] = dict(parse_qsl(changes, keep_blank_values=True))
    if "mine" in wanted:
        wanted["mine"] = wanted["mine"] == "1"
    return filter_.url(**wanted)


@register.filter
def event_words(event: Event) -> str:
    """What an event is called."""
    words = event.kind.replace("_", " ")
    return _EVENTS.get(event.kind, capital(words))


@register.filter
def line_numbers(text: str) -> str:
    """`1` to the number of the text's lines, one a line: the gutter beside it."""
    return "\n".join(map(str, range(1, text.rstrip("\n").count("\n") + 2)))


@register.filter
def asks_for(spec: Mapping[str, Any]) -> str:
    """What a job's stored specification asks of each node."""
    read = spec_text.readable(spec)
    return spec_text.asks_for(read.resources) if read else "what this version cannot read"


@register.filter
def settings_shown(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a job was told beyond the usual, as (name, text)."""
    read = spec_text.readable(spec)
    return list(spec_text.settings_shown(read)) if read else []


@register.filter
def seconds_used(job: Job) -> int:
    """Of its walltime, so far; never more than that."""
    if job.started_at is None:
        return 0
    used = ((job.ended_at or timezone.now()) - job.started_at).total_seconds()
    return max(0, min(int(used), job.walltime_s))


@register.filter
def seconds_left(job: Job) -> int:
    """Of its walltime."""
    return job.walltime_s - seconds_used(job)


@register.filter
def state_class(name: str) -> str:
    """`state-out-of-memory`: sets a state's colours."""
    return f"state-{name.lower().replace('_', '-')}"


@register.filter
def as_json(value: Any) -> str:
    """JSON for a data attribute; the template escapes it."""
    return json.dumps(value)


@register.simple_tag
def field_label(form: forms.BaseForm, name: str) -> str:
    """What the form calls this field; empty for what is none of its fields."""
    field = form.fields.get(name)
    return str(field.label or name) if field else ""


@register.filter
def walltime_words(seconds: int) -> str:
    """`4 h`, `2 d 12 h`, `90 s`: exact."""
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    parts = []
    for name, length in units:
        number, seconds = divmod(seconds, length)
        if number:
            parts.append(f"{number} {name}")
    return " ".join(parts) or "0 s"


@register.filter
def took(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min`: as exact as it is measured."""
    return f"{seconds:.1f} s" if seconds < 10 else span(seconds)


@register.filter
def days(seconds: float) -> str:
    """`154 days`; below two days as hours and minutes."""
    return f"{seconds / 86_400:,.0f} days" if seconds >= 2 * 86_400 else span(seconds)


@register.filter
def start_words(found: Outlook) -> str:
    """`Submitted now, it would start at once on gpu-1.`, or why it would wait."""
    if not found.starting:
        return f"Submitted now, it would wait. {found.why}"
    if found.jobs == 1:
        return f"Submitted now, it would start at once on {listed(found.nodes)}."
    if found.starting == found.jobs:
        return f"Submitted now, all {found.jobs:,} jobs would start at once."
    rest = count(found.jobs - found.starting, "other")
    return (
        f"Submitted now, {found.starting:,} of its {found.jobs:,} jobs would start at once "
        f"and the {rest} later."
    )


@register.filter
def fit_words(found: Outlook) -> str:
    """`It fits on 3 nodes (1 of them down or drained); 7 of their 12 such GPUs are free.`"""
    where = f"It fits on {count(found.could, 'node')}"
    down = f" ({found.down} of them down or drained)" if found.down else ""
    gpus = f"; {found.free_gpus} of {found.gpus} such GPUs are free" if found.gpus else ""
    return f"{where}{down}{gpus}."


@register.filter
def places(checkpoints: Iterable[Checkpoint]) -> list[str]:
    """The directories the checkpoints lie in, each once: `gpu01:/home/lab/checkpoints/job-7`."""
    return list(
        dict.fromkeys(f"{found.node.name}:{found.path.rpartition('/')[0]}" for found in checkpoints)
    )
