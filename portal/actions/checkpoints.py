"""Keep the list of a job's checkpoints as the nodes tell it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta

from django.db.models import Q

from jobs.events import CheckpointSeen
from portal import live
from portal.actions.clock import Times
from portal.models import Allocation, Checkpoint

CLOCKS_AGREE = timedelta(seconds=2)
"""A time of a file, told twice, differs by no more than this."""
WHOLE_LIST = 1000
"""A node tells of the newest so many of a run: one less, and what is missing is gone."""
LARGEST = 2**63 - 1
"""What a column takes. A file full of holes may claim more."""
LONGEST_PROBLEM = 1000
LONGEST_WRITE_S = 1e7
"""A third of a year: no writing takes longer."""
FACTS = (
    "attempt", "name", "step", "size_bytes", "modified_at", "complete", "problem", "write_s",
)  # fmt: skip


def note(parts: dict[str, Allocation], seen: Iterable[CheckpointSeen], times: Times) -> None:
    """Write down what is new or changed, and forget what is no longer there."""
    by_key: dict[str, list[CheckpointSeen]] = defaultdict(list)
    for found in seen:
        if found.key in parts:
            by_key[found.key].append(found)
    known, torn = _known(parts, by_key)
    behind = []
    for key, listed in by_key.items():
        for found in listed:
            old = known[key].get(found.path)
            row = _row(parts[key], found, times)
            _remember(row, old, torn.get((row.job_id, row.path), ()))
            if old is None or _differs(old, row):
                behind.append(row)
    Checkpoint.objects.bulk_create(
        behind, update_conflicts=True, update_fields=FACTS, unique_fields=["job", "node", "path"],
        batch_size=500,
    )  # fmt: skip
    gone = [
        row
        for key, listed in by_key.items()
        if len(listed) < WHOLE_LIST
        for row in known[key].values()
        if row.path not in {found.path for found in listed}
    ]
    Checkpoint.objects.filter(pk__in=[row.pk for row in gone]).delete()
    if changed := {row.job_id for row in (*behind, *gone)}:
        live.changed(*(f"job-{job_id}" for job_id in sorted(changed)))


Rows = dict[str, dict[str, Checkpoint]]
Torn = dict[tuple[int, str], list[Checkpoint]]


def _known(parts: dict[str, Allocation], keys: Iterable[str]) -> tuple[Rows, Torn]:
    """By run and path what is known of it; by job and path what earlier attempts left torn."""
    rows: Rows = {key: {} for key in keys}
    torn: Torn = defaultdict(list)
    runs = {(parts[key].attempt.job_id, parts[key].node_id): key for key in rows}
    left = Q(complete=False, attempt__ended_at__isnull=False)
    here = Q(node_id__in={node for _, node in runs})
    found = Checkpoint.objects.filter(here | left, job_id__in={job for job, _ in runs})
    for row in found.select_related("attempt"):
        if key := runs.get((row.job_id, row.node_id)):
            rows[key][row.path] = row
        # What was found wrong with a closed one will be found again.
        if not (row.complete or row.problem) and row.attempt.ended_at is not None:
            torn[row.job_id, row.path].append(row)
    return rows, torn


def _row(part: Allocation, found: CheckpointSeen, times: Times) -> Checkpoint:
    write_s = found.write_s
    return Checkpoint(
        job_id=part.attempt.job_id,
        node_id=part.node_id,
        attempt_id=part.attempt_id,
        path=found.path,
        name=found.name,
        step=found.step,
        size_bytes=min(found.size_bytes, LARGEST),
        modified_at=times.ours(found.modified_at) or times.now,
        complete=found.complete,
        problem="" if found.complete else found.problem[:LONGEST_PROBLEM],
        write_s=write_s if write_s and 0 < write_s < LONGEST_WRITE_S else None,
    )


def _remember(row: Checkpoint, old: Checkpoint | None, torn: Iterable[Checkpoint]) -> None:
    """Add what only an earlier attempt could see of what has not changed since."""
    for before in torn:
        if _same(before, row):
            # That nobody writes it any more does not make it whole.
            row.complete, row.attempt_id, row.write_s = False, before.attempt_id, None
    if old is not None and _same(old, row):
        row.attempt_id = old.attempt_id
        if row.complete and old.complete and row.write_s is None:
            row.write_s = old.write_s


def _same(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether it was left as it is. `last.pt` is written again and again, always of one size."""
    moved = abs(one.modified_at - other.modified_at) > CLOCKS_AGREE
    return one.size_bytes == other.size_bytes and not moved


def _differs(old: Checkpoint, row: Checkpoint) -> bool:
    facts = [(one.complete, one.problem, one.write_s) for one in (old, row)]
    return facts[0] != facts[1] or not _same(old, row)
