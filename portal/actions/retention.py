"""Remove the checkpoints that a job does not want kept, and keep those that a person pinned."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q

from jobs.checkpoints import Saved, superfluous
from jobs.engines.contract import Prune, Pruned
from jobs.lifecycle import ENDED
from jobs.nodes.transport import NodeError
from jobs.spec import Keep
from portal import live, reach
from portal.models import Allocation, Checkpoint, Event, Job, Node, User

AFTER_ITS_END = timedelta(hours=12)
"""So long after a run's end its node is still asked to remove what it left."""
AT_ONCE = 50
UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""Stands in names for bytes that are no text: by such a name nothing can be asked for."""

log = logging.getLogger(__name__)


class _Wanted(NamedTuple):
    key: str
    row: Checkpoint


def prune(*, node_id: int, now: datetime) -> int:
    """Have a node remove what the jobs there do not want kept, a bounded number at a time; how
    many are gone."""
    node = Node.objects.to_ask(node_id)
    wanted = _wanted(node_id, now)[:AT_ONCE] if node else []
    if node is None or not wanted:
        return 0
    asked = [Prune(one.key, one.row.name, one.row.size_bytes) for one in wanted]
    try:
        answers = reach.engine(node).prune(asked)
    except NodeError as error:
        # Much to remove takes long. Whether the node is well is for looks to find out.
        log.warning("%s was asked to remove checkpoints: %s", node.name, error.message)
        return 0
    return _forget(wanted, answers, now)


def _wanted(node_id: int, now: datetime) -> list[_Wanted]:
    """The last run of each job there, with those of its checkpoints that may go."""
    over = Q(phase=Allocation.Phase.ENDED, ended_at__gt=now - AFTER_ITS_END, tidied=False)
    parts = Allocation.objects.filter(
        over | Q(phase=Allocation.Phase.RUNNING), node_id=node_id,
        attempt__job__checkpoints__node_id=node_id,
    )  # fmt: skip
    rows = parts.order_by("attempt__number").values_list(
        "attempt__job", "key", "attempt__job__spec__keep_checkpoints"
    )
    runs = {job_id: (key, Keep(**keep)) for job_id, key, keep in rows.distinct() if keep}
    saved: dict[int, list[Checkpoint]] = defaultdict(list)
    for row in Checkpoint.objects.filter(job__in=runs, node_id=node_id):
        saved[row.job_id].append(row)
    in_use = _in_use(row.path for found in saved.values() for row in found)
    doubted = _doubted(runs)
    return [
        _Wanted(runs[job_id][0], row)
        for job_id, found in saved.items()
        for row in _superfluous(found, runs[job_id][1], in_use, doubted)
    ]


def _in_use(paths: Iterable[str]) -> set[str]:
    """Those from which a job goes on, or is to."""
    going = Job.objects.filter(resume_from__in=list(paths)).exclude(state__in=ENDED)
    return set(going.values_list("resume_from", flat=True))


def _doubted(job_ids: Iterable[int]) -> set[tuple[int, str]]:
    """Those, by job and path, that any node has not found complete: no job would go on from them,
    but from the one before."""
    rows = Checkpoint.objects.filter(job__in=list(job_ids), complete=False)
    return set(rows.values_list("job_id", "path"))


def _superfluous(
    found: list[Checkpoint], keep: Keep, in_use: set[str], doubted: set[tuple[int, str]]
) -> list[Checkpoint]:
    by_path = {row.path: row for row in found}
    saved = [
        Saved(
            row.path, row.step, row.modified_at.timestamp(), (row.job_id, row.path) not in doubted,
            row.pinned, row.path in in_use or UNREADABLE in row.name,
        )
        for row in found
    ]  # fmt: skip
    return [by_path[one.path] for one in superfluous(saved, last=keep.last, every=keep.every)]


@transaction.atomic
def _forget(wanted: list[_Wanted], answers: list[Pruned], now: datetime) -> int:
    gone = [one.row for one, answer in zip(wanted, answers, strict=True) if answer.gone]
    Checkpoint.objects.filter(pk__in=[row.pk for row in gone]).delete()
    by_job: dict[int, list[str]] = defaultdict(list)
    for row in gone:
        by_job[row.job_id].append(row.called)
    for job_id, called in by_job.items():
        _tell(job_id, called, now)
    live.changed(*(f"job-{job_id}" for job_id in by_job))
    return len(gone)


def _tell(job_id: int, called: list[str], now: datetime) -> None:
    """In one event, while nothing else happens to the job: it may go on so for weeks."""
    last = Event.objects.filter(job_id=job_id).order_by("-id").first()
    if last is None or last.kind != "pruned":
        last = Event(job_id=job_id, kind="pruned")
    removed = (last.changes or {}).get("removed", 0) + len(called)
    last.at, last.changes = now, {"removed": removed}
    last.detail = f"{removed:,} so far, the last of them {called[-1]}."
    last.save()


@transaction.atomic
def pin(*, checkpoint: Checkpoint, pinned: bool, actor: User, now: datetime) -> bool:
    """Say whether it is kept whatever else is removed; False if that was said before.

    What a node is being asked to remove at this moment may be gone all the same.
    """
    # The nodes of a job may share their storage.
    rows = Checkpoint.objects.filter(job=checkpoint.job_id, path=checkpoint.path)
    if not rows.filter(pinned=not pinned).update(pinned=pinned):
        return False
    kind = "pinned" if pinned else "unpinned"
    detail = f"Checkpoint {checkpoint.name}."
    Event.objects.create(at=now, job_id=checkpoint.job_id, kind=kind, detail=detail, actor=actor)
    live.changed(f"job-{checkpoint.job_id}")
    return True
