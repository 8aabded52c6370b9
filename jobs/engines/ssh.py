"""The engine that needs nothing but a login: the shepherd on one node, over any transport."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from jobs.engines.contract import Grant, Launch, Launched, LogRange, Prune, Pruned, Stop
from jobs.events import Observation
from jobs.nodes.answers import BadAnswer, decode
from jobs.nodes.health import HealthAsked, HealthSeen
from jobs.nodes.shepherd import Shepherd
from jobs.nodes.transport import CommandFailed, ConnectionLost, NodeError, Transport

LAUNCH_S = 60.0
ASK_S = 30.0
COLLECT_S = 60.0
HEALTH_S = 60.0
# Launches go in calls of about this size, so that neither side holds a thousand scripts at once.
LAUNCH_BYTES = 16 * 1024 * 1024

T = TypeVar("T")


@dataclass(frozen=True)
class _Launches:
    launched: tuple[Launched, ...]


@dataclass(frozen=True)
class _Ranges:
    ranges: tuple[LogRange, ...]


@dataclass(frozen=True)
class _Pruned:
    pruned: tuple[Pruned, ...]


class ShepherdEngine:
    """One node's runs. Safe to use from several threads; see `jobs.engines.contract.Engine`."""

    def __init__(self, transport: Transport, spool: str) -> None:
        """`spool` is where the shepherd keeps its runs: absolute, or `~/…`."""
        self._shepherd = Shepherd(transport, spool)

    def launch(self, launches: Sequence[Launch], *, lease: Grant | None = None) -> list[Launched]:
        """As in `Engine`. After an error some may run: launch them again, which harms nothing."""
        done: list[Launched] = []
        for batch in _batches(launches):
            request = {"launches": batch, "lease": _told(lease)}
            try:
                answer = self._ask(_Launches, "launch", request, LAUNCH_S)
            except NodeError as error:
                if not done:
                    raise
                # Whatever it says, of the launches as a whole it is not true that none arrived.
                raise ConnectionLost(f"Some launches were sent; then: {error.message}") from error
            done += answer.launched
        if [one.key for one in done] != [one.key for one in launches]:
            raise CommandFailed("launch: the answer is about other runs than were asked for")
        return done

    def observe(
        self,
        keys: Sequence[str],
        *,
        gpus: bool = False,
        system: bool = False,
        lease: Grant | None = None,
        fence: Sequence[str] = (),
    ) -> Observation:
        """As in `Engine`."""
        request = {
            "keys": list(keys), "gpus": gpus, "system": system, "checkpoints": True,
            "lease": _told(lease), "fence": list(fence),
        }  # fmt: skip
        seen = self._ask(Observation, "observe", request, ASK_S)
        if [run.key for run in seen.runs] != list(keys):
            raise CommandFailed("observe: the answer is about other runs than were asked for")
        return seen

    def health(self, asked: HealthAsked) -> HealthSeen:
        """As in `Engine`."""
        return self._ask(HealthSeen, "health", asdict(asked), HEALTH_S)

    def stop(self, stops: Sequence[Stop]) -> None:
        """As in `Engine`."""
        self._shepherd.ask("stop", {"stops": [asdict(one) for one in stops]}, timeout_s=ASK_S)

    def read_log(self, key: str, *, offset: int, length: int) -> LogRange:
        """As in `Engine`; at most 1 MiB a call."""
        request = {"ranges": [{"key": key, "offset": offset, "length": length}]}
        answer = self._ask(_Ranges, "read", request, ASK_S)
        if len(answer.ranges) != 1:
            raise CommandFailed("read: one range was asked for")
        return answer.ranges[0]

    def watch(self) -> Iterator[str]:
        """As in `Engine`."""
        return self._shepherd.watch()

    def collect(self, keys: Sequence[str]) -> None:
        """As in `Engine`."""
        self._shepherd.ask("collect", {"keys": list(keys)}, timeout_s=COLLECT_S)

    def prune(self, prunes: Sequence[Prune]) -> list[Pruned]:
        """As in `Engine`."""
        request = {"prunes": [asdict(one) for one in prunes]}
        done = list(self._ask(_Pruned, "prune", request, COLLECT_S).pruned)
        if [(one.key, one.name) for one in done] != [(one.key, one.name) for one in prunes]:
            raise CommandFailed("prune: the answer is about others than were asked for")
        return done

    def close(self) -> None:
        """As in `Engine`."""
        self._shepherd.close()

    def _ask(self, kind: type[T], verb: str, request: dict[str, Any], timeout_s: float) -> T:
        answer = self._shepherd.ask(verb, request, timeout_s=timeout_s)
        try:
            return decode(kind, answer, verb)
        except BadAnswer as error:
            raise CommandFailed(f"The node's answer makes no sense: {error}") from error


def _told(lease: Grant | None) -> dict[str, Any] | None:
    return None if lease is None else asdict(lease)


def _batches(launches: Sequence[Launch]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for launch in launches:
        given = asdict(launch)
        length = len(json.dumps(given))
        if batch and size + length > LAUNCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(given)
        size += length
    if batch:
        yield batch
