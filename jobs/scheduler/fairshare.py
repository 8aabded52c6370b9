"""Fair Tree: who has had less than their share goes first, level by level of the project tree.

The algorithm, its formulas and its rules for ties are those of Slurm's documentation
(https://slurm.schedmd.com/fair_tree.html); an example worked by hand is in `docs/scheduling.md`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

Association = tuple[int, int]
"""(project id, user id): what fair share ranks."""

GRAINS_PER_GPU_SECOND = 1000
"""Usage is compared in whole thousandths of a weighted GPU-second. The same charges, added in
another order, differ in the last bits of a float; that must not break a tie. This is coarser by far
than those bits (up to some 10^12 GPU-seconds) and finer than anything one would call usage. From
there on all is done in whole numbers, and nothing is rounded again."""

MAX_USAGE = 1e18
"""Weighted GPU-seconds; a million GPUs for more than ten thousand years. More counts as this much:
nothing that was written down may keep everybody from starting."""
MAX_SHARES = 10**9
MAX_LEVELS = 50
"""Of projects, one below the other. Far deeper ones could not be walked."""

_NOTHING = Fraction(0)


@dataclass(frozen=True)
class Project:
    """A node of the tree. Its shares are relative to those of its siblings."""

    id: int
    name: str
    parent_id: int | None
    shares: int = 1


@dataclass(frozen=True)
class Member:
    """A user in a project: a sibling of the project's sub-projects, and of its other users."""

    project_id: int
    user_id: int
    shares: int = 1
    name: str = ""


@dataclass(frozen=True)
class Level:
    """One step on the way from the top to a user."""

    name: str
    shares: float
    """S: of the shares of itself and its siblings, the fraction that is its own."""
    usage: float
    """U: of its parent's usage, the fraction that is its own."""
    fairness: float
    """LF = S / U: above 1 for who had less than their share. Infinity where nothing was used."""


@dataclass(frozen=True)
class Standing:
    """Where an association stands, and what put it there."""

    rank: int
    """As in Slurm: the first of N has N, the last at least 1. Ties share the higher one."""
    associations: int
    """N, how many are ranked."""
    levels: tuple[Level, ...]
    """From the top of the tree down to the user."""

    @property
    def factor(self) -> float:
        """rank / N: above 0, and 1 for the first."""
        return self.rank / self.associations

    @property
    def position(self) -> int:
        """1 for the first, as people count."""
        return self.associations - self.rank + 1


def standings(
    projects: Iterable[Project],
    members: Iterable[Member],
    usage: Mapping[Association, float],
) -> dict[Association, Standing]:
    """The standing of every member; the order of the input changes nothing.

    `usage` is decayed to one and the same moment for all, in weighted GPU-seconds; whoever is not
    in it used nothing. What a former member used still counts as their project's; what was used in
    a project that is not in the tree counts for nobody. Raises `ValueError` for what is no tree,
    and for numbers out of bounds.
    """
    tree = _Tree(projects, members, usage)
    total = len(tree.paths)
    found: dict[Association, Standing] = {}
    for tied in _tiers(tree, [None]):
        rank = total - len(found)
        for association in sorted(tied):
            found[association] = Standing(rank, total, tree.paths[association])
    return found


@dataclass(frozen=True)
class _Child:
    """What is ranked among its siblings: a project, or a user (then `association` is given)."""

    fairness: tuple[float, Fraction]
    """The float decides nearly always, and fast. It is the exact value rounded, so the exact values
    are in the same order, and tell equal from nearly equal where the floats are the same."""
    project_id: int
    association: Association | None


def _tiers(tree: _Tree, parents: Iterable[int | None]) -> list[list[Association]]:
    """The users below, the first ones first; those of equal rank are in one list.

    Several parents are tied with each other, and the documentation merges their children. A user
    who is tied with a project has the rank of that project's first users.
    """
    tiers: list[list[Association]] = []
    siblings = [child for parent in parents for child in tree.children[parent]]
    siblings.sort(key=_fairness, reverse=True)
    for _, group in groupby(siblings, key=_fairness):
        tied = list(group)
        users = [child.association for child in tied if child.association is not None]
        accounts = [child.project_id for child in tied if child.association is None]
        inner = _tiers(tree, accounts) if accounts else []
        if users and inner:
            inner[0] += users
        elif users:
            inner = [users]
        tiers += inner
    return tiers


def _fairness(child: _Child) -> tuple[float, Fraction]:
    return child.fairness


class _Tree:
    """Projects and users with their level fairness, and the way to each from the top."""

    def __init__(
        self,
        projects: Iterable[Project],
        members: Iterable[Member],
        usage: Mapping[Association, float],
    ) -> None:
        self.children: dict[int | None, list[_Child]] = defaultdict(list)
        self.paths: dict[Association, tuple[Level, ...]] = {}
        self._projects: dict[int | None, list[Project]] = defaultdict(list)
        self._members: dict[int | None, list[Member]] = defaultdict(list)
        self._grains = {key: _grains(value) for key, value in usage.items()}
        known = _by_id(projects)
        for project in known.values():
            _check_shares(project.shares)
            self._projects[project.parent_id].append(project)
        for member in members:
            if member.project_id not in known:
                raise ValueError(f"user {member.user_id}: no project {member.project_id}")
            _check_shares(member.shares)
            self._members[member.project_id].append(member)
        self._usage = self._totals(set(known))
        self._descend(None, ())

    def _totals(self, ids: set[int]) -> dict[int | None, int]:
        """The usage of every project with all below it; None for the whole tree."""
        order: list[int | None] = [None]
        for parent in order:
            order += (project.id for project in self._projects[parent])
        if len(order) <= len(ids):
            raise ValueError(f"not below the top: projects {sorted(ids.difference(order))}")
        totals: dict[int | None, int] = dict.fromkeys(order, 0)
        for (project_id, _), grains in self._grains.items():
            if project_id in ids:
                totals[project_id] += grains
        for parent in reversed(order):
            totals[parent] += sum(totals[project.id] for project in self._projects[parent])
        return totals

    def _descend(self, parent: int | None, path: tuple[Level, ...]) -> None:
        subs, members = self._projects[parent], self._members[parent]
        shares = sum(one.shares for one in subs) + sum(one.shares for one in members)
        whole = self._usage[parent]
        for project in subs:
            used = self._usage[project.id]
            level, fairness = _level(project.name, project.shares, shares, used, whole)
            self.children[parent].append(_Child(fairness, project.id, None))
            self._descend(project.id, (*path, level))
        for member in members:
            key = (member.project_id, member.user_id)
            if key in self.paths:
                raise ValueError(f"user {member.user_id} is twice in project {member.project_id}")
            used = self._grains.get(key, 0)
            level, fairness = _level(member.name, member.shares, shares, used, whole)
            self.children[parent].append(_Child(fairness, member.project_id, key))
            self.paths[key] = (*path, level)


def _level(
    name: str, own: int, shares: int, used: int, whole: int
) -> tuple[Level, tuple[float, Fraction]]:
    """LF = S / U, where `own` of `shares` and `used` of `whole` are whole numbers."""
    exact = Fraction(own * whole, used * shares) if own and used else _NOTHING
    fairness = 0.0 if not own else float(exact) if used else math.inf
    share = own / shares if shares else 0.0
    part = used / whole if whole else 0.0
    return Level(name, share, part, fairness), (fairness, exact)


def _by_id(projects: Iterable[Project]) -> dict[int, Project]:
    known: dict[int, Project] = {}
    for project in projects:
        if project.id in known:
            raise ValueError(f"project {project.id} is given twice")
        known[project.id] = project
    return known


def _check_shares(shares: int) -> None:
    if not 0 <= shares <= MAX_SHARES:
        raise ValueError(f"shares must be from 0 to {MAX_SHARES:,}, not {shares!r}")


def _grains(value: float) -> int:
    if not value >= 0:
        raise ValueError(f"usage must be a number of GPU-seconds from 0, not {value!r}")
    return round(min(value, MAX_USAGE) * GRAINS_PER_GPU_SECOND)
