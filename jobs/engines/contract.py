"""What every engine must do. One contract test suite runs against each real one.

An engine runs *runs*: a job's part on one node, in one attempt, named by a key that is never
used twice. Every verb may be repeated without harm: a second `launch` of a key starts nothing,
and a `stop` that comes before its `launch` makes that launch start nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from jobs.events import Observation
from jobs.lifecycle import WALLTIME_GRACE_S
from jobs.nodes.health import HealthAsked, HealthSeen


def run_key(job_id: int, attempt: int, node_rank: int, nonce: str) -> str:
    """The name of a run: `j17.a1.n0.3f9c2a71`.

    The nonce keeps it unique for ever: a restored database counts job ids anew, and two portals
    may use one account on a node.
    """
    return f"j{job_id}.a{attempt}.n{node_rank}.{nonce}"


@dataclass(frozen=True)
class Grant:
    """The node's lease lasts until its own clock, that of this boot, shows `until` (seconds)."""

    boot_id: str
    until: float


@dataclass(frozen=True)
class Launch:
    """All a node needs to start one run. `tasks` holds each task's own variables, in rank order."""

    key: str
    script: str
    environment: dict[str, str]
    tasks: tuple[dict[str, str], ...]
    workdir: str
    walltime_s: int
    checkpoint_dir: str
    stdout: str | None = None
    stderr: str | None = None
    warning_signal: int = 15
    warning_before_s: int = 0
    """0: no warning before the walltime; at its end SIGTERM, then the grace, then SIGKILL."""
    grace_s: int = WALLTIME_GRACE_S
    memory_mib: int | None = None
    log_cap_bytes: int = 64 * 1024 * 1024
    late: bool = False
    """It must not begin any more: a run that an earlier launch has begun goes on, and one that has
    not begun never will."""
    fence: bool = False
    """It ends with the node's lease, and begins only while the grant that comes along lasts."""


@dataclass(frozen=True)
class Launched:
    """The answer to one launch. `accepted` is False when it was stopped before it began, or was
    `refused`: the node could not even take it in (a full disk, say), and nothing was started."""

    key: str
    accepted: bool
    started_at: float | None = None
    message: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Stop:
    """End a run: `signal` first, SIGKILL to all that is left after `grace_s`."""

    key: str
    signal: int = 15
    grace_s: int = 30
    why: str = ""
    """For its log, in a few words."""


@dataclass(frozen=True)
class Prune:
    """Remove a checkpoint of a run, by its name in the checkpoint directory, if it is still that
    size."""

    key: str
    name: str
    size_bytes: int


@dataclass(frozen=True)
class Pruned:
    """What became of one. `gone` also when it was not there; else `message` says why it stays."""

    key: str
    name: str
    gone: bool
    message: str = ""


@dataclass(frozen=True)
class LogRange:
    """Bytes of a log from `offset`; `size` is the whole log's length at that moment."""

    offset: int
    data: bytes
    size: int


class Engine(Protocol):
    """One node (or one cluster below us) that runs what it is given.

    Raises `jobs.nodes.transport.NodeError` when the node can't be asked; then nothing is known
    and nothing may be concluded.
    """

    def launch(self, launches: Sequence[Launch], *, lease: Grant | None = None) -> list[Launched]:
        """Start runs, many at once, each at most once for ever; prolong the lease by a grant."""

    def observe(
        self,
        keys: Sequence[str],
        *,
        gpus: bool = False,
        system: bool = False,
        lease: Grant | None = None,
        fence: Sequence[str] = (),
    ) -> Observation:
        """Tell of these runs, their checkpoints and, if asked, of the GPUs and the machine.

        Prolongs the lease by a grant. From now on those in `fence` shall end with it, too: that
        they will is told by `RunObserved.fenced`, now or in a later answer.
        """

    def health(self, asked: HealthAsked) -> HealthSeen:
        """Look for what is sick on the node; takes up to a minute."""

    def stop(self, stops: Sequence[Stop]) -> None:
        """Begin to end runs; `observe` tells when they are gone."""

    def read_log(self, key: str, *, offset: int, length: int) -> LogRange:
        """Part of a run's log; a negative offset counts from the end."""

    def watch(self) -> Iterator[str]:
        """Yield a run's key whenever something about it changed, and "" as a sign of life."""

    def collect(self, keys: Sequence[str]) -> None:
        """Forget ended runs: remove their directories from the node. Checkpoints stay."""

    def prune(self, prunes: Sequence[Prune]) -> list[Pruned]:
        """Remove checkpoints that are complete and have not changed since they were found so."""

    def close(self) -> None:
        """Let go of connections."""
