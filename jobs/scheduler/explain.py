"""Why a job waits that no other job of the queue keeps from starting, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from jobs.lifecycle import Reason
from jobs.scheduler.fit import switches
from jobs.scheduler.snapshot import LATE_S, Explanation, Node, Pending
from jobs.scheduler.words import clock, count, jobs_named, latest, listed
from jobs.spec import Resources


def together(found: Sequence[Explanation]) -> Explanation:
    """The first with what the others say."""
    return replace(found[0], more=tuple(one.detail for one in found[1:]))


def held(job: Pending) -> Explanation:
    """Somebody, or a failed launch, keeps it back."""
    if job.hold_reason is Reason.HELD_LAUNCH:
        detail = "Held because it could not be launched; see its last attempt, then release it."
    elif job.hold_reason is Reason.HELD_ADMIN:
        detail = "Held by an administrator: it does not start before one releases it."
    else:
        detail = "Held: it does not start before somebody releases it."
    return Explanation(job.hold_reason, detail)


def unreadable(problem: str) -> Explanation:
    """What it asks for was stored in a way that this version does not know."""
    return Explanation(Reason.BAD_CONSTRAINTS, f"Its request cannot be read: {problem}.")


def dependency_never(others: Sequence[str]) -> Explanation:
    """What it waits for ended otherwise than it asked."""
    who = jobs_named(others) if others else "a job"
    return Explanation(
        Reason.DEPENDENCY_NEVER,
        f"It waits for {who}, which did not end the way it asks for: it can never start.",
    )


def dependency(
    others: Sequence[str], ends: Sequence[datetime | None], now: datetime
) -> Explanation:
    """`ends` tells of each of the others when it ends at the latest, None where not known."""
    if not others:
        return Explanation(Reason.DEPENDENCY, "Waits for other jobs to end.")
    detail = f"Waits for {jobs_named(others)} to end"
    known = [end for end in ends if end is not None]
    if len(known) == len(others):
        detail += _by(max(known), now)
    elif known:
        detail += f"; {len(known)} of {len(others)} {'runs' if len(known) == 1 else 'run'} now"
    elif len(others) > 1:
        detail += "; not all of them have started"
    return Explanation(Reason.DEPENDENCY, f"{detail}.")


def _by(end: datetime, now: datetime) -> str:
    late_s = now.timestamp() - end.timestamp()
    if late_s < 0:
        return f", by {latest(end, now)} at the latest"
    return ", due any moment" if late_s <= LATE_S else f", due since {clock(end, now)}"


def begin_time(begin_at: datetime, now: datetime) -> Explanation:
    """It asked to start later."""
    return Explanation(Reason.BEGIN_TIME, f"Asked to start no earlier than {clock(begin_at, now)}.")


def deadline(job: Pending, too_late: bool, now: datetime) -> str:
    """Until when it can start to end before it."""
    by = clock(datetime.fromtimestamp(job.starts_by, UTC), now)
    text = f"It has to start by {by} to end before its deadline"
    return f"{text}, and as far as is known it cannot." if too_late else f"{text}."


def array_limit(limit: int, first_end: datetime | None, now: datetime) -> Explanation:
    """As many of its array run as may run at once."""
    run = "runs" if limit == 1 else "run"
    detail = f"Its array may run {count(limit, 'task')} at once (%{limit}): {limit:,} {run} now"
    if first_end is not None and first_end > now:
        end = " and ends" if limit == 1 else ", the first of them ends"
        detail += f"{end} by {latest(first_end, now)} at the latest"
    return Explanation(Reason.ARRAY_LIMIT, f"{detail}.")


def array_turn(limit: int, running: int) -> Explanation:
    """Fewer run, but those before it are promised a time."""
    run = f"{running:,} of them {'runs' if running == 1 else 'run'} now and" if running else "and"
    rest = limit - running
    come = "the next one comes" if rest == 1 else f"the next {rest:,} come"
    return Explanation(
        Reason.ARRAY_LIMIT,
        f"Its array may run {count(limit, 'task')} at once (%{limit}), {run} {come} before it.",
    )


def no_nodes(partition: str) -> Explanation:
    """The partition is empty."""
    return Explanation(
        Reason.PARTITION_DOWN,
        f"Partition {partition} has no nodes. It starts once an admin adds one.",
    )


def never_fits(refusal: str, remedy: str) -> Explanation:
    """The lab has changed since it was submitted."""
    return Explanation(
        Reason.BAD_CONSTRAINTS,
        f"It {refusal}. It cannot start unless {remedy}.",
    )


def forbidden(sentence: str) -> Explanation:
    """A quota has become narrower since it was submitted."""
    return Explanation(
        Reason.BAD_CONSTRAINTS, f"{sentence} It cannot start unless that is allowed again."
    )


def models_missing(models: Iterable[str], partition: str) -> Explanation:
    """Quotas leave it GPUs of which there are too few."""
    names = listed(sorted(models))
    return Explanation(
        Reason.BAD_CONSTRAINTS,
        f"Its quotas allow GPUs of these models only: {names}; partition {partition} has too few "
        "nodes that could hold it with those. It cannot start unless one is added, or a quota "
        "allows others.",
    )


def nodes_unavailable(
    asked: Resources, able: Sequence[Node], every_node: Sequence[Node]
) -> Explanation:
    """Too few of the nodes that could hold it (`able`) take jobs at the moment."""
    away = [node for node in able if node.unavailable]
    names = unavailable(away)
    reason = Reason.NODE_DOWN
    ready = len(able) - len(away)
    if all(node.unavailable for node in every_node):
        reason = Reason.PARTITION_DOWN
        detail = f"No node of partition {every_node[0].partition} takes jobs now: {names}."
    elif asked.nodes > 1:
        near = f" on {switches(asked)}" if asked.max_switches else ""
        detail = (
            f"Needs {asked.nodes} nodes{near}; of those that could hold it {ready} "
            f"{'takes' if ready == 1 else 'take'} jobs now. Not available: {names}."
        )
    elif len(away) > 1:
        detail = f"Only these could hold it, and none takes jobs now: {names}."
    else:
        detail = f"Only {names} could hold it, and takes no jobs now."
    return Explanation(reason, f"{detail} It goes on by itself once enough are back.")


def unavailable(nodes: Iterable[Node]) -> str:
    """`n3 (draining: fan noise), n4 (down)`."""
    return listed((f"{node.name} ({node.unavailable})" for node in nodes), 4)
