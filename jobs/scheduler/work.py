"""What of a job its run time is foretold from, and which jobs are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobs.scheduler.words import count
from jobs.spec import Resources

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Work:
    """What of a job its run time is foretold from. An empty word stands for one not known."""

    user: int | str = ""
    project: int | str = ""
    """Not what people call them where they can call them otherwise."""
    name: str = ""
    gpus: int = 0
    """Whole ones."""
    shards: int = 0
    """Parts of GPUs, on all of its nodes."""
    whole_nodes: int = 0
    """Those that it has to itself."""
    walltime_s: float | None = None
    called: str = ""
    """What people call the project; of no influence."""

    @classmethod
    def of(
        cls,
        user: int | str,
        project: int | str,
        name: str,
        asked: Resources,
        walltime_s: float | None = None,
        called: str = "",
    ) -> Work:
        """That of a request."""
        shards = asked.nodes * asked.shards
        whole_nodes = asked.nodes if asked.exclusive else 0
        return cls(user, project, name, asked.gpus, shards, whole_nodes, walltime_s, called)

    @property
    def project_name(self) -> str:
        """For sentences."""
        return self.called or str(self.project)


@dataclass(frozen=True)
class Kind:
    """One way to say which jobs are alike."""

    fields: tuple[str, ...]
    """Fields of `Work` that must be equal, and known."""
    words: Callable[[Work, int], str]

    def of(self, work: Work) -> Key | None:
        values = tuple(getattr(work, field) for field in self.fields)
        return None if "" in values else (*self.fields, *values)


def _jobs(n: int) -> str:
    return "last job" if n == 1 else f"last {n} jobs"


def _on(work: Work) -> str:
    if work.whole_nodes:
        return f"on {count(work.whole_nodes, 'whole node')}"
    if work.shards:
        return f"on {count(work.shards, 'shard')}"
    return f"on {count(work.gpus, 'GPU')}" if work.gpus else "without GPUs"


def _named(work: Work, n: int) -> str:
    return f"your {_jobs(n)} named {work.name} in {work.project_name}"


_SIZE = ("gpus", "shards", "whole_nodes")
KINDS: Sequence[Kind] = (
    Kind(("user", "project", "name", *_SIZE), lambda w, n: f"{_named(w, n)} {_on(w)}"),
    Kind(("user", "project", "name"), _named),
    Kind(("user", *_SIZE), lambda w, n: f"your {_jobs(n)} {_on(w)}"),
    Kind(("user",), lambda w, n: f"your {_jobs(n)}"),
    Kind(("project", *_SIZE), lambda w, n: f"the {_jobs(n)} of {w.project_name} {_on(w)}"),
    Kind(("project",), lambda w, n: f"the {_jobs(n)} of {w.project_name}"),
    Kind(_SIZE, lambda w, n: f"the {_jobs(n)} of anybody {_on(w)}"),
    Kind((), lambda w, n: f"the {_jobs(n)} of anybody"),
)
"""The narrowest first."""
