"""Say what must be so on nodes besides what is looked for anyway: mounts, and a program's word."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from portal import live
from portal.actions.changes import applied
from portal.models import Checkup, Event, Node, User

MOST_MOUNTS = 16
LONGEST = 255


@transaction.atomic
def set_checks(
    *,
    nodes: Sequence[Node],
    actor: User | None,
    now: datetime,
    mounts: Sequence[str] | None = None,
    check_program: str | None = None,
    guards_gpus: bool | None = None,
) -> list[Node]:
    """The same for all of these, which are looked at anew soon; None leaves it as it is. Those
    nodes of which anything changes. Raises `ValidationError`, by field."""
    given = {"mounts": mounts, "check_program": check_program, "guards_gpus": guards_gpus}
    columns: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if mounts is not None:
        columns["mounts"] = list(dict.fromkeys(mounts))
    _check(columns)
    # What a look remembers before the node, as a look does.
    Checkup.objects.filter(node__in=nodes).update(asked_at=None)
    rows = Node.objects.select_for_update(no_key=True).filter(pk__in=[node.pk for node in nodes])
    changed = []
    for node in rows.order_by("pk"):
        changes = applied(node, columns)
        if changes:
            node.save(update_fields=list(columns))
            Event.objects.create(at=now, node=node, kind="checks set", actor=actor, changes=changes)
            changed.append(node)
    live.changed(*(f"node-{node.pk}" for node in changed))
    return changed


def _check(columns: dict[str, Any]) -> None:
    mounts, program = columns.get("mounts", ()), columns.get("check_program", "")
    errors: dict[str, str] = {}
    if len(mounts) > MOST_MOUNTS:
        errors["mounts"] = f"These are {len(mounts):,}; {MOST_MOUNTS} can be looked at at most."
    for path in mounts:
        if wrong := _wrong(path):
            errors["mounts"] = wrong
    if program and (wrong := _wrong(program)):
        errors["check_program"] = wrong
    if errors:
        raise ValidationError(errors)


def _wrong(path: str) -> str:
    if not path.startswith("/"):
        return f"{path!r} is not a path on the node; begin it with '/'."
    if len(path) > LONGEST or not path.isprintable():
        return f"Use at most {LONGEST} characters that can be printed."
    return ""
