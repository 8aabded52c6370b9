"""Template filters and tags for Carrel's pages: units, ages, states, icons.

Built into every template, so no page needs to load them.
"""

from __future__ import annotations

import re
import signal as signals
from base64 import b64decode, b64encode
from datetime import datetime, timedelta
from hashlib import sha256

from django import template
from django.contrib.auth.models import AnonymousUser
from django.templatetags.static import static
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.lifecycle import State
from portal.models import Job, User
from portal.queries import rights

register = template.Library()

MINUTE, HOUR, DAY = 60, 3600, 86_400
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
UNKNOWN = "\N{EN DASH}"

_STATE_WORDS = {
    State.PENDING: "Pending",
    State.CONFIGURING: "Starting",
    State.RUNNING: "Running",
    State.COMPLETING: "Ending",
    State.COMPLETED: "Completed",
    State.FAILED: "Failed",
    State.CANCELLED: "Cancelled",
    State.TIMEOUT: "Timed out",
    State.OUT_OF_MEMORY: "Out of memory",
    State.NODE_FAIL: "Node failed",
    State.DEADLINE: "Deadline missed",
    State.PREEMPTED: "Preempted",
}
_MAKERS = re.compile(r"^(NVIDIA|AMD|Tesla|GeForce|Instinct|Graphics Device)\s+", re.IGNORECASE)
_FORM_FACTOR = re.compile(r"[\s-]+(SXM\d?|PCIE|PCIe|HBM\d?e?|NVL)\b", re.IGNORECASE)


@register.simple_tag
def state(name: str) -> SafeString:
    """A job's state as a badge; its words say what the colour says."""
    return format_html(
        '<span class="state state-{}">{}</span>',
        name.lower().replace("_", "-"),
        state_words(name),
    )


@register.filter
def state_words(name: str) -> str:
    """`OUT_OF_MEMORY` as `Out of memory`."""
    return _STATE_WORDS.get(State(name), name) if name in set(State) else name


@register.simple_tag
def icon(name: str) -> SafeString:
    """One of the vendored icons, for the eye only: the text beside it says the same."""
    return format_html(
        '<svg class="icon" aria-hidden="true" width="16" height="16">'
        '<use href="{}#{}"></use></svg>',
        static("vendor/bootstrap-icons/icons.svg"),
        name,
    )


@register.filter
def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """From `start` to `end`, or to now while there is no end; None without a start."""
    return None if start is None else ((end or timezone.now()) - start).total_seconds()


@register.filter
def duration(seconds: float | timedelta | None) -> str:
    """`45 s`, `12 min 05 s`, `3 h 20 min`, `2 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    total = int(seconds.total_seconds() if isinstance(seconds, timedelta) else seconds)
    total = max(total, 0)
    if total < MINUTE:
        return f"{total} s"
    if total < HOUR:
        return f"{total // MINUTE} min {total % MINUTE:02} s"
    if total < DAY:
        return f"{total // HOUR} h {total % HOUR // MINUTE:02} min"
    return f"{total // DAY} d {total % DAY // HOUR} h"


@register.filter
def walltime(seconds: int | None) -> str:
    """As Slurm writes it: `1-02:03:04` or `02:03:04`."""
    if seconds is None:
        return UNKNOWN
    days, rest = divmod(int(seconds), DAY)
    clock = f"{rest // HOUR:02}:{rest % HOUR // MINUTE:02}:{rest % MINUTE:02}"
    return f"{days}-{clock}" if days else clock


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """`3 min ago`, with the full time when pointed at; `in 3 min` for what is to come."""
    if moment is None:
        return "never"
    seconds = (timezone.now() - moment).total_seconds()
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(timespec="seconds"),
        _full(moment),
        _age(seconds),
    )


@register.filter
def at(moment: datetime | None) -> SafeString | str:
    """The time of day for today, else with the date."""
    if moment is None:
        return UNKNOWN
    today = timezone.localtime(moment).date() == timezone.localdate()
    return _time(moment, "H:i:s" if today else "j M Y, H:i")


@register.filter
def dated(moment: datetime) -> SafeString:
    """With the date, today too: the begin and the end of a time of many days."""
    return _time(moment, "j M Y, H:i")


def _time(moment: datetime, form: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(timespec="seconds"),
        _full(moment),
        date_format(timezone.localtime(moment), form),
    )


def _full(moment: datetime) -> str:
    return date_format(timezone.localtime(moment), "j M Y, H:i:s e")


def _age(seconds: float) -> str:
    if -1 < seconds < 2:
        return "now"
    span = abs(seconds)
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if span >= unit:
            text = f"{int(span // unit)} {name}"
            break
    else:
        text = f"{int(span)} s"
    return f"{text} ago" if seconds > 0 else f"in {text}"


@register.filter
def number(value: int) -> str:
    """`12,345`."""
    return f"{value:,}"


@register.filter
def mib(value: float | None) -> str:
    """MiB in the unit that reads best: `512 MiB`, `79.6 GiB`, `1.5 TiB`."""
    return UNKNOWN if value is None else _binary(value, "MiB")


@register.filter
def size(value: float | None) -> str:
    """Bytes in the unit that reads best."""
    return UNKNOWN if value is None else _binary(value, "B")


def _binary(value: float, unit: str) -> str:
    larger = iter(_UNITS[_UNITS.index(unit) + 1 :])
    while value >= 1024 and unit != _UNITS[-1]:
        value /= 1024
        unit = next(larger)
    digits = 0 if unit == "B" or value >= 100 or value == int(value) else 1
    return f"{value:,.{digits}f} {unit}"


@register.filter
def gpu_model(name: str) -> str:
    """`NVIDIA A100-SXM4-80GB` as `A100 80GB`: without the maker and the form factor."""
    short = name.strip()
    while (shorter := _MAKERS.sub("", short)) != short:
        short = shorter
    return _FORM_FACTOR.sub("", short).replace("-", " ").strip() or name


@register.filter
def fingerprint(host_key: str) -> str:
    """`ssh-ed25519 AAAA...` as `SHA256:...`, as ssh-keygen shows it."""
    try:
        blob = b64decode(host_key.split()[1])
    except (IndexError, ValueError):
        return host_key
    return "SHA256:" + b64encode(sha256(blob).digest()).decode().rstrip("=")


@register.simple_tag
def exit_words(exit_code: int | None, signal: int | None = None) -> str:
    """`exit code 1` or `ended by SIGKILL (9)`; empty while neither is known."""
    if signal:
        try:
            return f"ended by {signals.Signals(signal).name} ({signal})"
        except ValueError:
            return f"ended by signal {signal}"
    return "" if exit_code is None else f"exit code {exit_code}"


@register.filter
def may_act_on(user: User | AnonymousUser, job: Job) -> bool:
    """`{% if user|may_act_on:job %}`."""
    return rights.may_act_on_job(user, job)


@register.filter
def may_hold(user: User | AnonymousUser, job: Job) -> bool:
    """`{% if user|may_hold:job %}`."""
    return rights.may_hold(user, job)


@register.filter
def may_release(user: User | AnonymousUser, job: Job) -> bool:
    """`{% if user|may_release:job %}`."""
    return rights.may_release(user, job)


@register.filter
def holds_for_others(user: User | AnonymousUser, job: Job) -> bool:
    """`{% if user|holds_for_others:job %}`."""
    return rights.holds_for_others(user, job)


@register.filter
def may_manage_nodes(user: User | AnonymousUser) -> bool:
    """`{% if user|may_manage_nodes %}`."""
    return rights.may_manage_nodes(user)


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: object) -> str:
    """This page's query string with some parameters changed; None or "" takes one out."""
    parameters = context["request"].GET.copy()
    for name, value in changes.items():
        if value in (None, ""):
            parameters.pop(name, None)
        else:
            parameters[name] = str(value)
    encoded = parameters.urlencode()
    return f"?{encoded}" if encoded else "?"
