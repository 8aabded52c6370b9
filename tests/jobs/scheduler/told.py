"""What was used before, as a usage tells it of whoever counts against one limit."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Account, Key
from jobs.scheduler.periods import Slice


@dataclass(frozen=True)
class Told:
    """By project, user and band; the projects are the whole tree."""

    by_key: Mapping[Key, tuple[Slice, ...]]
    projects: tuple[Project, ...]

    def __call__(self, account: Account) -> tuple[Slice, ...]:
        return tuple(
            one
            for (project_id, user_id, band), some in self.by_key.items()
            if account.project_id in self._line(project_id)
            and account.user_id in (None, user_id)
            and (account.band == band if account.band else band is not Band.BEST_EFFORT)
            for one in some
        )

    def items(self) -> ItemsView[Key, tuple[Slice, ...]]:
        return self.by_key.items()

    def _line(self, project_id: int | None) -> Iterator[int]:
        parents = {project.id: project.parent_id for project in self.projects}
        while project_id is not None:
            yield project_id
            project_id = parents.get(project_id)


NOTHING = Told({}, ())
