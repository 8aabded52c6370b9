"""Keep the list of a job's checkpoints as the nodes tell it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta

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
FACTS = ("name", "step", "size_bytes", "modified_at", "complete")


def note(parts: dict[str, Allocation], seen: Iterable[CheckpointSeen], times: Times) -> None:
    """Write down what is new or changed, and forget what is no longer there."""
    by_key: dict[str, list[CheckpointSeen]] = defaultdict(list)
    for found in seen:
        if found.key in parts:
            by_key[found.key].append(found)
    known: dict[str, dict[str, Checkpoint]] = {key: {} for key in by_key}
    keys = {(parts[key].attempt.job_id, parts[key].node_id): key for key in by_key}
    jobs, nodes = {job for job, _ in keys}, {node for _, node in keys}
    for row in Checkpoint.objects.filter(job_id__in=jobs, node_id__in=nodes):
        if key := keys.get((row.job_id, row.node_id)):
            known[key][row.path] = row
    behind = [
        _row(parts[key], found, times)
        for key, listed in by_key.items()
        for found in listed
        if _differs(known[key].get(found.path), found, times)
    ]
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


def _row(part: Allocation, found: CheckpointSeen, times: Times) -> Checkpoint:
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
    )


def _differs(row: Checkpoint | None, found: CheckpointSeen, times: Times) -> bool:
    size = min(found.size_bytes, LARGEST)
    if row is None or (row.size_bytes, row.complete) != (size, found.complete):
        return True
    # `last.pt` is written again and again, always of the same size.
    modified = times.ours(found.modified_at)
    return modified is not None and abs(modified - row.modified_at) > CLOCKS_AGREE
