"""What an admin tries: the same workload and policy with something of it changed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

from jobs.scheduler.fairshare import MAX_SHARES
from jobs.scheduler.fit import name_key
from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.simulate.quota_change import QuotaChange, changed_quotas
from jobs.scheduler.simulate.workload import Workload
from jobs.scheduler.snapshot import Node
from jobs.scheduler.words import count, memory, sentence

MOST_NODES = 1000
"""That may be added of one kind."""


class ChangeError(ValueError):
    """A change that cannot be made; the text says why."""


@dataclass(frozen=True)
class ProjectChange:
    """Of one project, but for its quotas. None leaves it as it is."""

    project_id: int
    shares: int | None = None
    lends: bool | None = None
    """Whether its children lend to each other."""


@dataclass(frozen=True)
class NodesChange:
    """So many more nodes of one kind, or fewer if negative. New ones are as the first is."""

    kind: str
    more: int


@dataclass(frozen=True)
class Changes:
    """All that is tried together. None leaves it as it is."""

    order: Order | None = None
    backfill: Backfill | None = None
    reservations: int | None = None
    lends_at_top: bool | None = None
    projects: tuple[ProjectChange, ...] = ()
    nodes: tuple[NodesChange, ...] = ()
    quotas: tuple[QuotaChange, ...] = ()

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Changes:
        """From what `asdict` made of one, also an older version's."""
        projects = said["projects"]
        return cls(
            order=Order(said["order"]) if said["order"] else None,
            backfill=Backfill(said["backfill"]) if said["backfill"] else None,
            reservations=said["reservations"],
            lends_at_top=said["lends_at_top"],
            projects=tuple(
                ProjectChange(one["project_id"], one["shares"], one["lends"]) for one in projects
            ),
            nodes=tuple(NodesChange(**one) for one in said["nodes"]),
            quotas=(
                *_kept_with_projects(projects),
                *(QuotaChange.read(one) for one in said.get("quotas", ())),
            ),
        )


def _kept_with_projects(said: Iterable[Mapping[str, Any]]) -> Iterator[QuotaChange]:
    """The only limit that could once be tried: GPUs at once, of all users and bands."""
    for one in said:
        if one.get("unlimited"):
            yield QuotaChange(one["project_id"], lifted=("gpus",))
        elif one.get("gpus") is not None:
            yield QuotaChange(one["project_id"], gpus=one["gpus"])


def changed_policy(policy: Policy, changes: Changes) -> Policy:
    """Raises `ValueError` for what no policy may be."""
    return replace(
        policy,
        order=changes.order or policy.order,
        backfill=changes.backfill or policy.backfill,
        reservations=changes.reservations or policy.reservations,
    )


def changed_workload(workload: Workload, changes: Changes) -> Workload:
    """Raises `ChangeError`."""
    for change in changes.projects:
        workload = _changed_project(workload, change)
    workload = _with_quotas(workload, changes.quotas)
    if changes.lends_at_top is not None:
        workload = replace(workload, lends=_switched(workload, None, changes.lends_at_top))
    return replace(workload, nodes=changed_nodes(workload.nodes, changes.nodes))


def kinds(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """All kinds there are, each with its nodes by name: `gpu: 8 x NVIDIA H100 80GB HBM3`. Where
    nodes with the same GPUs differ it says in what: `..., 64 CPUs, 512 GiB`."""
    like: dict[str, list[Node]] = defaultdict(list)
    for node in sorted(nodes, key=lambda node: (name_key(node.name), node.id)):
        like[_with_gpus_as(node)].append(node)
    found: dict[str, list[Node]] = defaultdict(list)
    for gpus, alike in like.items():
        traits = [_traits(node) for node in alike]
        differing = [len(set(trait)) > 1 for trait in zip(*traits, strict=True)]
        for node, told in zip(alike, traits, strict=True):
            found[", ".join((gpus, *compress(told, differing)))].append(node)
    return dict(sorted(found.items()))


def _with_gpus_as(node: Node) -> str:
    """`gpu: 7 x NVIDIA A30, 1 x NVIDIA A30 in 4 parts`."""
    found = Counter((gpu.model, gpu.shards) for gpu in node.gpus)
    gpus = ", ".join(
        f"{number} x {model}{f' in {shards} parts' if shards else ''}"
        for (model, shards), number in sorted(found.items())
    )
    return f"{node.partition}: {gpus or 'no GPU'}"


def _traits(node: Node) -> tuple[str, ...]:
    """What else jobs may ask of it."""
    features = " and ".join(sorted(node.features))
    return count(node.cpus, "CPU"), memory(node.memory_mib), features or "no features"


def changed_nodes(nodes: Iterable[Node], changes: Iterable[NodesChange]) -> tuple[Node, ...]:
    """Raises `ChangeError` for a kind that there is not, and for more to go than there are."""
    found = kinds(nodes)
    number = max((node.id for alike in found.values() for node in alike), default=0)
    for change in changes:
        alike = found.get(change.kind)
        if alike is None:
            raise ChangeError(f"There are no nodes of the kind {change.kind!r} (any more).")
        if change.more > MOST_NODES:
            raise ChangeError(f"At most {MOST_NODES:,} nodes can be added, not {change.more:,}.")
        if change.more < -len(alike):
            raise ChangeError(
                f"{-change.more} nodes cannot go: of {change.kind} there are {len(alike)}."
            )
        kept = alike[: len(alike) + min(0, change.more)]
        new = range(number + 1, number + 1 + max(0, change.more))
        found[change.kind] = kept + [_like(alike[0], at) for at in new]
        number += len(new)
    return tuple(node for alike in found.values() for node in alike)


def _like(node: Node, number: int) -> Node:
    gpus = tuple(replace(gpu, uuid=f"{gpu.uuid} of {number}") for gpu in node.gpus)
    return replace(node, id=number, name=f"{node.name}-new-{number}", gpus=gpus)


def _changed_project(workload: Workload, change: ProjectChange) -> Workload:
    number = change.project_id
    _check_there(workload, number)
    if change.shares is not None:
        if not 0 <= change.shares <= MAX_SHARES:
            raise ChangeError(f"Shares are from 0 to {MAX_SHARES:,}, not {change.shares:,}.")
        projects = tuple(
            replace(project, shares=change.shares) if project.id == number else project
            for project in workload.projects
        )
        workload = replace(workload, projects=projects)
    if change.lends is not None:
        workload = replace(workload, lends=_switched(workload, number, change.lends))
    return workload


def _with_quotas(workload: Workload, changes: Iterable[QuotaChange]) -> Workload:
    for change in changes:
        _check_there(workload, change.project_id)
    try:
        quotas = changed_quotas(workload.quotas, changes, workload.time_zone)
    except ValueError as error:
        raise ChangeError(sentence(str(error))) from error
    return replace(workload, quotas=quotas)


def _check_there(workload: Workload, project_id: int) -> None:
    if project_id not in {project.id for project in workload.projects}:
        raise ChangeError("One of the projects is gone.")


def _switched(workload: Workload, above: int | None, lends: bool) -> frozenset[int | None]:
    return workload.lends | {above} if lends else workload.lends - {above}
