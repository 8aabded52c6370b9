"""Why a job waits, in plain sentences with true numbers: the blocker, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.lifecycle import Reason
from jobs.scheduler.fit import count, gpus, listed, memory
from jobs.scheduler.forecast import Opening
from jobs.scheduler.room import Room
from jobs.scheduler.snapshot import Explanation, Node, Pending
from jobs.spec import Resources


@dataclass(frozen=True)
class Blocker:
    """The job that a partition's queue waits behind."""

    label: str
    asked: Resources
    opening: Opening | None
    rivals: tuple[str, ...] = ()
    """Jobs before it that wait for something else, and may take that opening after all."""


def clock(moment: datetime, now: datetime) -> str:
    """`14:05 UTC`, with the day when it is another one; in the time zone of `now`."""
    local = moment.astimezone(now.tzinfo) if now.tzinfo else moment
    day = "" if local.date() == now.date() else f" on {local.day} {local:%b}"
    if day and local.year != now.year:
        day += f" {local.year}"
    return f"{local:%H:%M} {local:%Z}".strip() + day


def _latest(moment: datetime, now: datetime) -> str:
    """As `clock`, but never told too early: a minute that has begun counts as over."""
    return clock(moment + timedelta(minutes=1, microseconds=-1), now)


def jobs_named(labels: Sequence[str]) -> str:
    """`job 17`, `jobs 17 and 18_2`, `jobs 17, 18_2 and 3 others`."""
    if len(labels) == 1:
        return f"job {labels[0]}"
    if len(labels) <= 3:
        return f"jobs {', '.join(labels[:-1])} and {labels[-1]}"
    return f"jobs {labels[0]}, {labels[1]} and {len(labels) - 2} others"


def held(job: Pending) -> Explanation:
    """Somebody, or a failed launch, keeps it back."""
    if job.hold_reason is Reason.HELD_LAUNCH:
        detail = "Held because it could not be launched; see its last attempt, then release it."
    else:
        detail = "Held; it starts no earlier than somebody releases it."
    return Explanation(job.hold_reason, detail)


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
        last = max(known)
        detail += f", by {_latest(last, now)} at the latest" if last > now else ", due any moment"
    elif known:
        detail += f"; {len(known)} of {len(others)} {'runs' if len(known) == 1 else 'run'} now"
    elif len(others) > 1:
        detail += "; not all of them have started"
    return Explanation(Reason.DEPENDENCY, f"{detail}.")


def begin_time(begin_at: datetime, now: datetime) -> Explanation:
    """It asked to start later."""
    return Explanation(Reason.BEGIN_TIME, f"Asked to start no earlier than {clock(begin_at, now)}.")


def array_limit(limit: int, first_end: datetime | None, now: datetime) -> Explanation:
    """As many of its array run as may run at once."""
    detail = f"Its array may run {count(limit, 'task')} at once (%{limit}), and so many run now."
    if first_end is not None and first_end > now:
        detail += f" The next one ends by {_latest(first_end, now)} at the latest."
    return Explanation(Reason.ARRAY_LIMIT, detail)


def no_nodes(partition: str) -> Explanation:
    """The partition is empty."""
    return Explanation(
        Reason.PARTITION_DOWN,
        f"Partition {partition} has no nodes; an admin can add one, or move the job elsewhere.",
    )


def never_fits(refusal: str) -> Explanation:
    """The lab has changed since it was submitted."""
    return Explanation(
        Reason.BAD_CONSTRAINTS,
        f"It {refusal}. It cannot start unless such a node is added.",
    )


def nodes_unavailable(
    asked: Resources, able: Sequence[Node], every_node: Sequence[Node]
) -> Explanation:
    """Too few of the nodes that could hold it (`able`) take jobs at the moment."""
    away = [node for node in able if node.unavailable]
    names = unavailable(away)
    if all(node.unavailable for node in every_node):
        partition = every_node[0].partition
        return Explanation(
            Reason.PARTITION_DOWN, f"No node of partition {partition} takes jobs now: {names}."
        )
    ready = len(able) - len(away)
    if asked.nodes == 1:
        detail = f"Only {names} could hold it, and takes no jobs now."
        if len(away) > 1:
            detail = f"Only these could hold it, and none takes jobs now: {names}."
    else:
        detail = (
            f"Needs {count(asked.nodes, 'node')}; of those that could hold it {ready} "
            f"{'takes' if ready == 1 else 'take'} jobs now. Not available: {names}."
        )
    return Explanation(Reason.NODE_DOWN, f"{detail} It goes on by itself once enough are back.")


def unavailable(nodes: Iterable[Node]) -> str:
    """`n3 (draining: fan noise), n4 (down)`."""
    return listed((f"{node.name} ({node.unavailable})" for node in nodes), 4)


def resources(
    first: Blocker, rooms: Sequence[Room], away: Sequence[Node], now: datetime
) -> Explanation:
    """First in line, but what it needs is not free on `rooms`, which could hold it."""
    asked = first.asked
    detail = f"Needs {need(asked)}; {_shortage(asked, rooms)}. {_outlook(first, now)}"
    if away:
        detail += f" Could hold it too, but takes no jobs now: {unavailable(away)}."
    return Explanation(Reason.RESOURCES, detail)


def priority(ahead: int, blocker: Blocker, now: datetime) -> Explanation:
    """Somebody submitted earlier and still waits for resources."""
    waits = f"waits for {need(blocker.asked)}"
    if blocker.opening is not None and blocker.opening.at > now:
        waits += f", free {_by(blocker.opening.at, blocker.rivals, now)}"
    if ahead == 1:
        return Explanation(Reason.PRIORITY, f"Job {blocker.label} is ahead of it and {waits}.")
    return Explanation(
        Reason.PRIORITY,
        f"{ahead} jobs are ahead of it; the next, job {blocker.label}, {waits}.",
    )


def _by(moment: datetime, rivals: Sequence[str], now: datetime) -> str:
    """A promise only where nobody is left who could still go first."""
    when = f"by {_latest(moment, now)}"
    if not rivals:
        return f"{when} at the latest"
    if len(rivals) == 1:
        return f"{when} unless job {rivals[0]}, submitted earlier, starts there first"
    return f"{when} unless one of {len(rivals)} jobs submitted earlier starts there first"


def need(asked: Resources) -> str:
    """`2 GPUs on one node`, `4 nodes with 8 GPUs, 16 CPUs and 64 GiB each`."""
    parts = []
    if asked.gpus_per_node:
        parts.append(gpus(asked))
    if asked.cpus > 1 or not parts:
        parts.append(count(asked.cpus, "CPU"))
    if asked.memory_mib is not None:
        parts.append(memory(asked.memory_mib))
    what = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    if asked.nodes == 1:
        return f"a whole node with {what}" if asked.exclusive else f"{what} on one node"
    return f"{asked.nodes} {'whole ' if asked.exclusive else ''}nodes with {what} each"


def _shortage(asked: Resources, rooms: Sequence[Room]) -> str:
    if asked.nodes > 1:
        ready = sorted((room for room in rooms if room.fits(asked)), key=lambda room: room.order)
        if not ready:
            return "none has that free now"
        names = listed(room.node.name for room in ready)
        return f"{len(ready)} {'has' if len(ready) == 1 else 'have'} that free now ({names})"
    if asked.exclusive and all(room.jobs for room in rooms):
        return "none is empty"
    roomy = [room for room in rooms if not room.exclusive]
    if not roomy:
        return "each that could hold it is taken whole by another job"
    if asked.gpus_per_node:
        most = max(room.free_gpus(asked) for room in roomy)
        if most < asked.gpus_per_node:
            return _gpus_free(most, [r.node.name for r in roomy if r.free_gpus(asked) == most])
    return _closest(asked, roomy)


def _gpus_free(most: int, names: Sequence[str]) -> str:
    if most == 0:
        return "none is free"
    if len(names) == 1:
        return f"{most} {'is' if most == 1 else 'are'} free (on {names[0]})"
    return f"no node has more than {most} free"


def _closest(asked: Resources, rooms: Sequence[Room]) -> str:
    """GPUs are not what is missing, or not alone: name the node that lacks least."""

    def lacks(room: Room) -> list[str]:
        found = []
        free = room.free_gpus(asked)
        if free < asked.gpus_per_node:
            found.append(count(free, "GPU"))
        if room.cpus < asked.cpus:
            found.append(count(max(room.cpus, 0), "CPU"))
        if asked.memory_mib is not None and room.memory_mib < asked.memory_mib:
            found.append(memory(max(room.memory_mib, 0)))
        if asked.exclusive and room.jobs:
            found.append("no place to itself")
        return found

    best = min(rooms, key=lambda room: (len(lacks(room)), -room.cpus, room.order))
    return f"the closest, {best.node.name}, has only {' and '.join(lacks(best))} free"


def _outlook(first: Blocker, now: datetime) -> str:
    asked, found = first.asked, first.opening
    if found is None:
        return "When that will be free is not known."
    leaving = sorted({(end.job_id, end.label) for end in found.endings})
    several = len(leaving) > 1
    who = jobs_named([label for _, label in leaving])
    who = who[0].upper() + who[1:]
    where = listed(found.nodes, 3)
    if found.at <= now:
        return f"{who} {'are' if several else 'is'} past the time limit and about to leave {where}."
    when = _by(found.at, first.rivals, now)
    freed = sum(len(end.gpus) for end in found.endings)
    if asked.nodes > 1 or first.rivals:
        return f"{who} {'make' if several else 'makes'} room for it {when}."
    if asked.gpus_per_node and freed:
        return f"{who} {'free' if several else 'frees'} {count(freed, 'GPU')} on {where} {when}."
    return f"{who} {'leave' if several else 'leaves'} {where} {when}."
