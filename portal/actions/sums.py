"""Rows that sums are kept in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.db import models


def locked(
    rows: models.QuerySet[Any],
    names: Sequence[str],
    keys: Collection[tuple[Any, ...]],
    **empty: Any,
) -> dict[tuple[Any, ...], Any]:
    """The rows whose columns `names` are these keys, locked; made `empty` where there is none.

    For a transaction, whose locks they are to its end. In one order everywhere, so that no two
    wait for each other.
    """
    model = rows.model
    made = (model(**dict(zip(names, key, strict=True)), **empty) for key in sorted(keys))
    rows.bulk_create(made, ignore_conflicts=True)
    among = {
        f"{name}__in": {key[place] for key in keys} for place, name in enumerate(names)
    }  # fmt: skip
    found = rows.select_for_update(no_key=True).filter(**among).order_by("pk")
    by_key = {tuple(getattr(row, name) for name in names): row for row in found}
    return {key: by_key[key] for key in keys}
