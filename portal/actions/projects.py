"""The tree of projects and who is in them. Every change is an event that says what was before.

All raise `ValidationError` that names the field, and do nothing where nothing would change.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from jobs import lifecycle
from jobs.scheduler.fairshare import MAX_LEVELS
from jobs.scheduler.words import listed
from portal import hints, live
from portal.actions import passes
from portal.actions.changes import Changes, applied
from portal.models import Accounting, Event, Membership, Project, User
from portal.queries import accounts

UNFINISHED = lifecycle.WAITING | lifecycle.ACTIVE


@transaction.atomic
def create(
    *,
    name: str,
    actor: User | None,
    now: datetime,
    title: str = "",
    description: str = "",
    parent: Project | None = None,
    shares: int = 1,
) -> Project:
    """Make a project, at the top or below another one."""
    _lock()
    project = Project()
    columns = {"name": name, "title": title, "description": description, "shares": shares}
    _check_name(project, name)
    changes = applied(project, columns | {"parent": _taken_in(project, parent)})
    project.save()
    _tell(project, "created", {name: both for name, both in changes.items() if both[1]}, actor, now)
    return project


def rename(*, project: Project, name: str, actor: User | None, now: datetime) -> bool:
    """Give it another name; jobs, quotas and what was used stay its own."""
    return _change(project, "renamed", actor, now, name=name)


def describe(
    *, project: Project, title: str, description: str, actor: User | None, now: datetime
) -> bool:
    """What people read about it."""
    return _change(project, "described", actor, now, title=title, description=description)


def move(*, project: Project, parent: Project | None, actor: User | None, now: datetime) -> bool:
    """Put it, with all below it, under another project, or at the top (None)."""
    return _change(project, "moved", actor, now, parent=parent)


def set_shares(*, project: Project, shares: int, actor: User | None, now: datetime) -> bool:
    """Its shares, beside those of its siblings."""
    return _change(project, "shares set", actor, now, shares=shares)


def set_lending(*, project: Project, lends: bool, actor: User | None, now: datetime) -> bool:
    """Whether its children lend each other what they do not use of their quotas of GPUs."""
    return _change(project, "lending set", actor, now, lends=lends)


@transaction.atomic
def set_lending_at_the_top(*, lends: bool, actor: User | None, now: datetime) -> bool:
    """The same of projects without a parent."""
    passes.wait()
    terms = Accounting.locked()
    changes = applied(terms, {"lends": lends})
    if changes:
        terms.save(update_fields=[*changes])
        _tell(None, "lending set", changes, actor, now)
    return bool(changes)


@transaction.atomic
def archive(*, project: Project, actor: User | None, now: datetime) -> bool:
    """Take in no more jobs. It stays in the tree, as what it used is used."""
    # Whoever is submitting a job to it holds it, and is waited for.
    _lock()
    project.refresh_from_db()
    left = project.jobs.filter(state__in=UNFINISHED).count()
    if left:
        why = "1 job of it is not finished; wait for it, or cancel it."
        if left > 1:
            why = f"{left} jobs of it are not finished; wait for them, or cancel them."
        raise ValidationError({"archived": why})
    below = project.children.filter(archived_at=None).values_list("name", flat=True)
    if below:
        raise ValidationError({"archived": f"Archive what is below it first: {listed(below)}."})
    return _archived(project, now, "archived", actor, now)


@transaction.atomic
def restore(*, project: Project, actor: User | None, now: datetime) -> bool:
    """Take in jobs again."""
    _lock()
    project.refresh_from_db()
    if project.parent and project.parent.archived_at:
        raise ValidationError({"archived": f"Restore {project.parent} first, which is above it."})
    return _archived(project, None, "restored", actor, now)


@transaction.atomic
def set_member(
    *,
    project: Project,
    user: User,
    actor: User | None,
    now: datetime,
    shares: int = 1,
    lead: bool = False,
) -> bool:
    """Let a person submit to it, with these shares beside those of its other members."""
    known = Membership.objects.select_for_update().filter(project=project, user=user).first()
    row = known or Membership(project=project, user=user)
    before = _standing(known)
    if not applied(row, {"shares": shares, "lead": lead}) and known:
        return False
    row.save()
    kind = "member changed" if known else "member added"
    _tell(project, kind, {user.username: [before, _standing(row)]}, actor, now)
    return True


@transaction.atomic
def remove_member(*, project: Project, user: User, actor: User | None, now: datetime) -> bool:
    """Let them submit no more; their jobs that were taken in go on."""
    known = Membership.objects.select_for_update().filter(project=project, user=user).first()
    if known is None:
        return False
    before = _standing(known)
    known.delete()
    _tell(project, "member removed", {user.username: [before, None]}, actor, now)
    return True


def _standing(row: Membership | None) -> dict[str, Any] | None:
    return {"shares": row.shares, "lead": row.lead} if row else None


@transaction.atomic
def _change(project: Project, kind: str, actor: User | None, now: datetime, **columns: Any) -> bool:
    _lock()
    project.refresh_from_db()
    if "name" in columns:
        _check_name(project, columns["name"])
    if "parent" in columns:
        columns["parent"] = _taken_in(project, columns["parent"])
    changes = applied(project, columns)
    if changes:
        project.save(update_fields=list(columns))
        _tell(project, kind, changes, actor, now)
    return bool(changes)


def _lock() -> None:
    """One change of the tree at a time: two that look harmless could make a circle together, or
    leave a project open below one that is archived. Not FOR UPDATE, which new jobs, that refer to
    projects, would have to wait for. No pass is under way, which would start by other quotas and
    loans than are shown from then on."""
    passes.wait()
    list(Project.objects.order_by("pk").select_for_update(no_key=True).values_list("pk"))


def _check_name(project: Project, name: str) -> None:
    if Project.objects.filter(name=name).exclude(pk=project.pk).exists():
        raise ValidationError({"name": f"There is a project {name} already."})


def _taken_in(project: Project, parent: Project | None) -> Project | None:
    """The parent as it is now, if it may be one."""
    if parent is None:
        return None
    parent = Project.objects.get(pk=parent.pk)
    if project.pk and parent.pk in accounts.below(project.pk):
        why = "it cannot be below itself" if parent.pk == project.pk else f"{parent} is below it"
        raise ValidationError({"parent": f"{project} cannot go under {parent}: {why}."})
    if parent.pk == project.parent_id:
        return parent
    if parent.archived_at:
        raise ValidationError({"parent": f"{parent} is archived; restore it first."})
    levels = accounts.depth(parent.pk) + (accounts.height(project.pk) if project.pk else 1)
    if levels > MAX_LEVELS:
        raise ValidationError({
            "parent": f"Below {parent} it would make {levels} levels of projects; "
            f"{MAX_LEVELS} are the most."
        })  # fmt: skip
    return parent


def _archived(
    project: Project, at: datetime | None, kind: str, actor: User | None, now: datetime
) -> bool:
    if bool(project.archived_at) == bool(at):
        return False
    before, project.archived_at = project.archived_at, at
    project.save(update_fields=["archived_at"])
    told = [moment and moment.isoformat() for moment in (before, at)]
    _tell(project, kind, {"archived_at": told}, actor, now)
    return True


def _tell(
    project: Project | None, kind: str, changes: Changes, actor: User | None, now: datetime
) -> None:
    Event.objects.create(at=now, project=project, kind=kind, actor=actor, changes=changes)
    live.changed("projects", *([f"project-{project.pk}"] if project else []))
    hints.schedule()
