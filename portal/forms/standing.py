"""How forms of settings write values: what is so now, and what is the default."""

from __future__ import annotations

from typing import Any

from django import forms

from jobs.scheduler.words import amount

DAY_S = 86_400


def plain(value: float | None) -> str:
    """A number for a field, exact and without zeros that say nothing; empty for none."""
    return "" if value is None else str(value).removesuffix(".0")


def short(value: float) -> str:
    """A number for reading: to the millionth, without zeros that say nothing."""
    return amount(value, 6)


def days(seconds: float) -> str:
    """The same in days."""
    return plain(seconds / DAY_S)


def seconds(number: float, unit_s: int) -> float:
    """Back again. Whole seconds, as no division of days is exact."""
    return float(round(number * unit_s))


def tell_standing(form: forms.Form, name: str, now: object, usual: object) -> None:
    """Add to a field's help what is so now, and what it is by default."""
    field = form.fields[name]
    now, usual = _words(now), _words(usual)
    told = f"Now {now}, the default." if now == usual else f"Now {now}; default {usual}."
    field.help_text = f"{field.help_text} {told}".strip()


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, int | float):
        return short(value)
    return str(value)
