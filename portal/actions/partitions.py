"""Partitions: made where one is missing, the default one kept where the nodes are, what an admin
sets for the jobs of one, and its name wherever something else names it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from portal import hints, live
from portal.actions import passes
from portal.actions.changes import applied
from portal.models import Event, Partition, User, WhatIf
from portal.queries import partitions

TERMS = (
    "max_walltime_s", "default_walltime_s", "default_band", "allowed_bands", "priority_weights",
)  # fmt: skip


@transaction.atomic
def set_terms(*, partition: Partition, actor: User | None, now: datetime, **terms: Any) -> bool:
    """Some of `TERMS`. False where nothing changes. Raises `ValidationError`, by field.

    Walltimes and bands are those of jobs to come; the weights hold for those that wait, too.
    """
    if unknown := terms.keys() - {*TERMS}:
        raise TypeError(f"no terms: {', '.join(sorted(unknown))}")
    # Not FOR UPDATE, which new jobs and nodes, that refer to partitions, would have to wait for.
    row = Partition.objects.select_for_update(no_key=True).get(pk=partition.pk)
    changes = applied(row, terms)
    row.clean()
    if changes:
        row.save(update_fields=list(terms))
        Event.objects.create(
            at=now, kind="partition set", detail=row.name, actor=actor, changes=changes
        )
        live.changed("jobs", "nodes")
        hints.schedule()
    return bool(changes)


def check_name(partition: Partition, name: str) -> None:
    """Raises `ValidationError` for a name that this one may not be given in place of its own."""
    before = Partition.objects.filter(pk=partition.pk).values_list("name", flat=True).first()
    if before and before != name and partitions.PRACTICE in (before, name):
        raise ValidationError({"name": f"{partitions.PRACTICE} is the practice lab's, and stays."})


@transaction.atomic
def rename(*, partition: Partition, name: str, actor: User | None, now: datetime) -> bool:
    """Give it another name, also where quotas and trials of changes name it: its jobs could not
    start any more. False where nothing changes. Raises `ValidationError`, by field."""
    # A pass under way has read the one place before, and would read the other after.
    passes.wait()
    row = Partition.objects.select_for_update(no_key=True).get(pk=partition.pk)
    check_name(row, name)
    before, changes = row.name, applied(row, {"name": name})
    if not changes:
        return False
    row.save(update_fields=["name"])
    Event.objects.create(at=now, kind="partition set", detail=name, actor=actor, changes=changes)
    _rename_in_quotas(before, name, actor, now)
    _rename_in_trials(before, name)
    live.changed("jobs", "nodes", "projects")
    hints.schedule()
    return True


def _rename_in_quotas(before: str, name: str, actor: User | None, now: datetime) -> None:
    for quota in partitions.quotas_naming({before}):
        named = [name if one == before else one for one in quota.partitions or ()]
        told = {"partitions": [quota.partitions, named]}
        quota.partitions = named
        quota.save(update_fields=["partitions"])
        Event.objects.create(
            at=now, project=quota.project, kind="quota set", actor=actor, detail=str(quota),
            changes=told,
        )  # fmt: skip
        live.changed(f"project-{quota.project_id}")


def _rename_in_trials(before: str, name: str) -> None:
    """Those that wait, and those that are asked for again: quotas name it, and kinds of nodes begin
    with it."""
    for trial in WhatIf.objects.only("changes").order_by("pk"):
        kinds = [one for one in trial.changes["nodes"] if one["kind"].startswith(f"{before}: ")]
        quotas = trial.changes.get("quotas", ())
        naming = [one for one in quotas if before in (one["partitions"] or ())]
        for one in kinds:
            one["kind"] = name + one["kind"].removeprefix(before)
        for one in naming:
            one["partitions"] = [name if part == before else part for part in one["partitions"]]
        if kinds or naming:
            trial.save(update_fields=["changes"])


def default_partition() -> Partition:
    """The partition of jobs that name none; made when there is none yet."""
    found = partitions.named(None)
    made = {"is_default": True}
    return found or Partition.objects.get_or_create(name=partitions.FIRST, defaults=made)[0]


def usual_for_nodes() -> Partition:
    """The partition of real nodes that name none; made when there is none yet."""
    return Partition.objects.get_or_create(name=partitions.usual_for_nodes())[0]


def follow_nodes(*, actor: User | None, now: datetime) -> None:
    """Let the default partition be one with nodes, real ones before the practice lab's.

    A default one that serves stays the default. For a transaction that adds or removes a node.
    """
    # In turn: two that choose at once would choose two. Not FOR UPDATE, which the new rows of
    # nodes, that refer to these, would hold up, each waiting for the other.
    list(Partition.objects.order_by("pk").select_for_update(no_key=True))
    before, chosen = Partition.objects.filter(is_default=True), _most_able()
    if chosen is None:
        before = before.filter(name=partitions.PRACTICE)
    for row in before:
        if row != chosen:
            _set_default(row, False, actor, now)
    if chosen and not chosen.is_default:
        _set_default(chosen, True, actor, now)


def _most_able() -> Partition | None:
    for able in (partitions.with_real_nodes(), partitions.with_nodes()):
        found = able.order_by("-is_default", "name").first()
        if found:
            return found
    return None


def _set_default(partition: Partition, is_default: bool, actor: User | None, now: datetime) -> None:
    Partition.objects.filter(pk=partition.pk).update(is_default=is_default)
    Event.objects.create(
        at=now, kind="partition set", detail=partition.name, actor=actor,
        changes={"is_default": [not is_default, is_default]},
    )  # fmt: skip
