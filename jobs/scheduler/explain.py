"""Why a job waits, in plain sentences with true numbers: the blocker, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.lifecycle import Reason
from jobs.scheduler.fit import count, gpus, listed, memory
from jobs.scheduler.forecast import Opening
from jobs.scheduler.room import Room
from jobs.scheduler.snapshot import Explanation, Node, Pending
from jobs.spec import Resources


@dataclass(frozen=True)
class Blocker:
    """The job that a partition's queue waits behind."""

    job_id: int
    asked: Resources
    opening: Opening | None


def clock(moment: datetime, now: datetime) -> str:
    """`14:05 UTC`, with the day when it is another one; in the time zone of `now`."""
    local = moment.astimezone(now.tzinfo) if now.tzinfo else moment
    day = "" if local.date() == now.date() else f" on {local.day} {local:%b}"
    if day and local.year != now.year:
        day += f" {local.year}"
    return f"{local:%H:%M} {local:%Z}".strip() + day


def jobs_named(ids: Iterable[int]) -> str:
    """`job 17`, `jobs 17 and 18`, `jobs 17, 18 and 3 more`."""
    found = sorted(set(ids))
    if len(found) == 1:
        return f"job {found[0]}"
    if len(found) <= 3:
        return f"jobs {', '.join(map(str, found[:-1]))} and {found[-1]}"
    return f"jobs {found[0]}, {found[1]} and {len(found) - 2} more"


def held(job: Pending) -> Explanation:
    """Somebody, or a failed launch, keeps it back."""
    if job.hold_reason is Reason.HELD_LAUNCH:
        detail = "Held because it could not be launched; see its last attempt, then release it."
    else:
        detail = "Held; it starts no earlier than somebody releases it."
    return Explanation(job.hold_reason, detail)


def dependency_never(job: Pending) -> Explanation:
    """What it waits for ended otherwise than it asked."""
    who = jobs_named(job.waits_for) if job.waits_for else "a job"
    return Explanation(
        Reason.DEPENDENCY_NEVER,
        f"It waits for {who}, which did not end the way it asks for. It can never start: "
        "cancel it, or submit it again without the dependency.",
    )


def dependency(job: Pending, ends: Mapping[int, datetime], now: datetime) -> Explanation:
    """`ends` tells when running jobs end at the latest."""
    if not job.waits_for:
        return Explanation(Reason.DEPENDENCY, "Waits for other jobs to end.")
    detail = f"Waits for {jobs_named(job.waits_for)} to end"
    if all(job_id in ends for job_id in job.waits_for):
        last = max(ends[job_id] for job_id in job.waits_for)
        detail += f", by {clock(last, now)} at the latest" if last > now else ", due any moment"
    elif any(job_id in ends for job_id in job.waits_for):
        running = sum(job_id in ends for job_id in job.waits_for)
        detail += f"; {running} of {len(job.waits_for)} {'runs' if running == 1 else 'run'} now"
    else:
        detail += "; not started yet" if len(job.waits_for) == 1 else "; none has started yet"
    return Explanation(Reason.DEPENDENCY, f"{detail}.")


def begin_time(begin_at: datetime, now: datetime) -> Explanation:
    """It asked to start later."""
    return Explanation(Reason.BEGIN_TIME, f"Asked to start no earlier than {clock(begin_at, now)}.")


def array_limit(limit: int, first_end: datetime | None, now: datetime) -> Explanation:
    """As many of its array run as may run at once."""
    detail = f"Its array may run {count(limit, 'task')} at once (%{limit}), and so many run now."
    if first_end is not None and first_end > now:
        detail += f" The next one ends by {clock(first_end, now)} at the latest."
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
        f"It {refusal}. It cannot start unless such a node is added: cancel it and ask for less.",
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
    asked: Resources, rooms: Sequence[Room], found: Opening | None, away: Sequence[Node],
    now: datetime,
) -> Explanation:  # fmt: skip
    """First in line, but what it needs is not free on `rooms`, which could hold it."""
    detail = f"Needs {need(asked)}; {_shortage(asked, rooms)}. {_outlook(asked, found, now)}"
    if away:
        detail += f" Could hold it too, but takes no jobs now: {unavailable(away)}."
    return Explanation(Reason.RESOURCES, detail)


def priority(ahead: int, blocker: Blocker, now: datetime) -> Explanation:
    """Somebody submitted earlier and still waits for resources."""
    waits = f"waits for {need(blocker.asked)}"
    if blocker.opening is not None and blocker.opening.at > now:
        waits += f", free by {clock(blocker.opening.at, now)} at the latest"
    if ahead == 1:
        return Explanation(Reason.PRIORITY, f"Job {blocker.job_id} is ahead of it and {waits}.")
    return Explanation(
        Reason.PRIORITY,
        f"{ahead} jobs are ahead of it; the next, job {blocker.job_id}, {waits}.",
    )


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


def _outlook(asked: Resources, found: Opening | None, now: datetime) -> str:
    if found is None:
        return "When that will be free is not known."
    who = jobs_named(end.job_id for end in found.endings)
    who = who[0].upper() + who[1:]
    several = len({end.job_id for end in found.endings}) > 1
    where = listed(found.nodes, 3)
    if found.at <= now:
        return f"{who} {'are' if several else 'is'} past the time limit and about to leave {where}."
    when = f"by {clock(found.at, now)} at the latest"
    freed = sum(len(end.gpus) for end in found.endings)
    if asked.nodes > 1:
        return f"{who} {'make' if several else 'makes'} room for it {when}."
    if asked.gpus_per_node and freed:
        return f"{who} {'free' if several else 'frees'} {count(freed, 'GPU')} on {where} {when}."
    return f"{who} {'leave' if several else 'leaves'} {where} {when}."
