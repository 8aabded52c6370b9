"""Settings that administrators change: checked as a whole, told with what was before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

Changes = dict[str, list[Any]]
"""By the name of each field that changes: what it was, and what it becomes."""


def applied(row: models.Model, columns: Mapping[str, Any]) -> Changes:
    """Set these columns of `row`, which is not saved, and check them.

    Raises `ValidationError`, by field.
    """
    before = {name: told(getattr(row, name)) for name in columns}
    for name, value in columns.items():
        setattr(row, name, value)
    others = {field.name for field in row._meta.fields} - columns.keys()
    row.clean_fields(exclude=others)
    _check_finite(row, columns)
    row.validate_unique(exclude=others)
    row.validate_constraints()
    after = {name: told(getattr(row, name)) for name in columns}
    return {
        name: [before[name], after[name]] for name in columns if before[name] != after[name]
    }  # fmt: skip


def _check_finite(row: models.Model, names: Iterable[str]) -> None:
    """No comparison of Django's validators refuses these."""
    values = {name: getattr(row, name) for name in names}
    endless = {
        name: "Give a number."
        for name, value in values.items()
        if isinstance(value, float) and not math.isfinite(value)
    }
    if endless:
        raise ValidationError(endless)


def told(value: Any) -> Any:
    """As an event keeps it."""
    return str(value) if isinstance(value, models.Model) else value
