"""Set nodes aside for a time. Every change is an event of each node that it concerns.

All raise `ValidationError` that names the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from jobs.rules import LAST_YEAR
from portal import hints, live
from portal.actions import passes
from portal.actions.changes import Changes, applied
from portal.models import Event, Node, Project, Reservation, User


@transaction.atomic
def reserve(
    *,
    reservation: Reservation | None,
    name: str,
    reason: str,
    nodes: Sequence[Node],
    starts_at: datetime,
    ends_at: datetime,
    projects: Sequence[Project],
    users: Sequence[User],
    actor: User | None,
    now: datetime,
) -> bool:
    """Make one (None), or change one that is not over. Without projects and users nobody may run
    there: that is maintenance. False where nothing changes."""
    _lock()
    row = Reservation() if reservation is None else _known(reservation, now)
    before = _sets(row)
    after = {
        "nodes": _names(nodes), "projects": _names(projects),
        "users": sorted(user.username for user in users),
    }  # fmt: skip
    columns = {"name": name, "reason": reason, "starts_at": starts_at, "ends_at": ends_at}
    _check(row, nodes, starts_at, ends_at, now)
    changes = _told(applied(row, columns))
    changes |= {key: [before[key], after[key]] for key in after if before[key] != after[key]}
    if not changes:
        return False
    row.save()
    row.nodes.set(nodes)
    row.projects.set(projects)
    row.users.set(users)
    kind = "reserved" if reservation is None else "reservation changed"
    concerned = {*before["nodes"], *after["nodes"]}
    _tell(row, kind, concerned, changes, actor, now)
    return True


@transaction.atomic
def release(*, reservation: Reservation, actor: User | None, now: datetime) -> bool:
    """End it now; one that has not begun is taken away. False for one that is over."""
    _lock()
    row = Reservation.objects.filter(pk=reservation.pk).first()
    if row is None or row.ends_at <= now:
        return False
    changes = _told({"ends_at": [row.ends_at, now]})
    names = _sets(row)["nodes"]
    _tell(row, "reservation ended", names, changes, actor, now)
    if row.starts_at < now:
        row.ends_at = now
        row.save(update_fields=["ends_at"])
    else:
        row.delete()
    return True


def _lock() -> None:
    """One change at a time: two could set the same node aside together. No pass is under way."""
    passes.wait()
    list(Node.objects.order_by("pk").select_for_update(no_key=True).values_list("pk"))


def _known(reservation: Reservation, now: datetime) -> Reservation:
    row = Reservation.objects.filter(pk=reservation.pk).first()
    if row is None or row.ends_at <= now:
        raise ValidationError({"ends_at": "It is over already; make another one."})
    return row


def _check(
    row: Reservation, nodes: Sequence[Node], starts_at: datetime, ends_at: datetime, now: datetime
) -> None:
    if not nodes:
        raise ValidationError({"nodes": "Name one node or more."})
    if ends_at <= starts_at:
        raise ValidationError({"ends_at": "It must end after it starts."})
    if ends_at <= now:
        raise ValidationError({"ends_at": "That is over already."})
    if ends_at.year > LAST_YEAR:
        raise ValidationError({"ends_at": f"The year {LAST_YEAR} is the last that can be named."})
    others = Reservation.objects.exclude(pk=row.pk).order_by("starts_at", "pk")
    at_once = others.filter(nodes__in=nodes, starts_at__lt=ends_at, ends_at__gt=starts_at)
    taken = at_once.values_list("nodes__name", "name", "starts_at", "ends_at").first()
    if taken:
        raise ValidationError({"nodes": _overlaps(*taken)})


def _overlaps(node: str, name: str, starts_at: datetime, ends_at: datetime) -> str:
    """Also within one for the same people, which would add nothing to it."""
    span = f"{_moment(starts_at)} to {_moment(ends_at)}"
    return (
        f"{node} is set aside then already, by {name}, {span}. Choose another time, or change it."
    )


def _names(rows: Iterable[Node | Project]) -> list[str]:
    return sorted(row.name for row in rows)


def _sets(row: Reservation) -> dict[str, list[str]]:
    if row.pk is None:
        return {"nodes": [], "projects": [], "users": []}
    users = row.users.order_by("username").values_list("username", flat=True)
    return {
        "nodes": _names(row.nodes.all()), "projects": _names(row.projects.all()),
        "users": list(users),
    }  # fmt: skip


def _told(changes: Changes) -> Changes:
    """Times as JSON keeps them, in the lab's time zone."""
    return {name: [_moment(value) for value in both] for name, both in changes.items()}


def _moment(value: object) -> object:
    if isinstance(value, datetime):
        return f"{timezone.localtime(value):%Y-%m-%d %H:%M %Z}"
    return value


def _tell(
    row: Reservation,
    kind: str,
    names: Iterable[str],
    changes: Changes,
    actor: User | None,
    now: datetime,
) -> None:
    span = f"{_moment(row.starts_at)} to {_moment(row.ends_at)}"
    nodes = list(Node.objects.filter(name__in=names))
    Event.objects.bulk_create(
        Event(
            at=now, node=node, kind=kind, actor=actor, detail=f"{row.name}, {span}",
            changes=changes,
        )
        for node in nodes
    )  # fmt: skip
    live.changed("nodes", *(f"node-{node.pk}" for node in nodes))
    hints.schedule()
