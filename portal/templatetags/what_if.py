"""Template filters for what came of a trial: `{% load what_if %}`."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.queries.what_if import Figure
from portal.templatetags.carrel import duration
from portal.templatetags.projects import hours, percent

register = template.Library()


@register.filter
def figure(line: Figure, value: float | None) -> str:
    """As its kind is written: `3 min 20 s`, `75 %`, `0.94`, `1,204`, `12.5`."""
    if value is None:
        return "none"
    match line.kind:
        case "duration":
            return duration(value)
        case "percent":
            return percent(value)
        case "index":
            return f"{value:.3f}"
        case "hours":
            return hours(value)
    return f"{value:,.0f}"


@register.filter
def difference(line: Figure) -> SafeString:
    """By how much it becomes better or worse, said in words beside the colour."""
    if line.equal:
        return format_html("{}", "about the same")
    if line.now is None or line.then is None:
        return format_html("{}", "")
    by = abs(line.then - line.now)
    amount = f"{100 * by:.1f} points" if line.kind == "percent" else figure(line, by)
    direction = "more" if line.then > line.now else "less"
    if line.better is None:
        return format_html("{} {}", amount, direction)
    word = "better" if line.better else "worse"
    return format_html('{} {}, <span class="{}">{}</span>', amount, direction, word, word)
