"""What a simulation may be asked to try: policies by name, or from a file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, TypeVar

from jobs.scheduler.policy import MAX_S, Backfill, Order, Placing, Policy
from jobs.scheduler.priority import PriorityWeights
from jobs.scheduler.simulate.lengths import (
    Lengths,
    Predicted,
    Requested,
    TrueLengths,
    Within,
)


class Known(StrEnum):
    """What the scheduler is told of how long jobs run."""

    TRUE = "true"
    """Their real run times, in advance."""
    REQUESTED = "requested"
    """Their users' time limits."""
    PREDICTED = "predicted"
    """What the history foretells, within the time limits where there are any."""
    WITHIN = "predicted-within-requested"
    """The order by what is foretold; the time limits for everything that is promised."""


class Walls(StrEnum):
    """What the parts of the cluster are to each other."""

    HARD = "hard"
    """Partitions of their own: nobody runs elsewhere."""
    LENT = "lent"
    """One pool; each has its own GPUs as a guarantee and may use what the others leave idle."""
    POOL = "pool"
    """One pool for all, without guarantees."""


class BestEffort(StrEnum):
    """Whose jobs are best-effort. No recorded workload tells; so chance does, by a hash."""

    NONE = "none"
    """Nobody's: all are of one band."""
    JOBS = "half-of-jobs"
    """Each job is with probability one half; the others are production."""
    USERS = "half-of-users"
    """All jobs of half of the users are; without users, those of half of the projects."""


class PolicyError(ValueError):
    """A policy that is not known, or a file with something wrong in it."""


_LENGTHS: dict[Known, Callable[[], Lengths]] = {
    Known.TRUE: TrueLengths,
    Known.REQUESTED: Requested,
    Known.PREDICTED: Predicted,
    Known.WITHIN: Within,
}


@dataclass(frozen=True)
class SimPolicy:
    """How the cluster of a simulation is scheduled, and what its scheduler knows."""

    name: str
    policy: Policy = field(default_factory=Policy)
    lengths: Known = Known.PREDICTED
    walls: Walls = Walls.HARD
    about: str = ""
    """What a person who chooses among those that have a name is told."""
    best_effort: BestEffort = BestEffort.NONE
    checkpoints: bool = True
    """Who is preempted goes on where it was, after a restart; else it begins anew."""

    def start_lengths(self) -> Lengths:
        """Of a new simulation: nothing has been learnt yet."""
        return _LENGTHS[self.lengths]()


def _plain(order: Order, backfill: Backfill = Backfill.NONE) -> Policy:
    """As published simulations do it."""
    return Policy(
        order, backfill, Placing.BEST_FIT,
        reservations=1, min_run_s=0.0, bounded=False,
    )  # fmt: skip


def _carrel(order: Order) -> Policy:
    # What is promised by predictions is often wrong: to promise one job a time costs others least.
    return Policy(order, Backfill.EASY, reservations=1)


NAMED: dict[str, SimPolicy] = {
    policy.name: policy
    for policy in (
        SimPolicy(
            "fifo", _plain(Order.SUBMISSION), Known.TRUE,
            about="first come, first served; nobody passes",
        ),
        SimPolicy(
            "sjf", _plain(Order.SHORTEST), Known.TRUE,
            about="the shortest first; nobody passes the first that does not fit",
        ),
        SimPolicy(
            "qssf", _plain(Order.LEAST_SERVICE), Known.TRUE,
            about="the least GPUs x run time first; nobody passes",
        ),
        SimPolicy(
            "easy", _plain(Order.SUBMISSION, Backfill.EASY), Known.TRUE,
            about="first come, first served, with EASY backfill: the first is promised a time",
        ),
        SimPolicy(
            "skip", _plain(Order.SUBMISSION, Backfill.GREEDY), Known.TRUE,
            about="first come, first served, and whatever fits passes",
        ),
        SimPolicy(
            "carrel-default", Policy(),
            about="what a new lab runs: by priority, with backfill around 16 promises",
        ),
        SimPolicy(
            "carrel", _carrel(Order.RESPONSE_RATIO),
            about="the longest wait for the shortest expected run first, with EASY backfill",
        ),
        SimPolicy(
            "carrel-fair", _carrel(Order.FAIR_RATIO),
            about="the same, sooner for who has had less than their share",
        ),
        SimPolicy(
            "carrel-shortest", _carrel(Order.SHORTEST),
            about="the shortest expected run first, with EASY backfill; after 14 days its turn",
        ),
        SimPolicy(
            "carrel-yielding",
            replace(_carrel(Order.RESPONSE_RATIO), min_run_s=0.0, max_preemptions=10**6),
            about="the same as carrel; who may be preempted is, at any time and however often",
        ),
    )
}  # fmt: skip


def find_policies(texts: Iterable[str]) -> list[SimPolicy]:
    """As `find_policy`, each of another name. Raises `PolicyError`."""
    found: dict[str, SimPolicy] = {}
    for text in texts:
        policy = find_policy(text)
        if policy.name in found:
            raise PolicyError(f"two policies are called {policy.name!r}: a file may say name = ...")
        found[policy.name] = policy
    return list(found.values())


def find_policy(text: str) -> SimPolicy:
    """By its name, or from the file of that name. Raises `PolicyError`."""
    if text in NAMED:
        return NAMED[text]
    path = Path(text)
    if path.suffix == ".toml" or path.exists():
        return read_policy(path)
    raise PolicyError(f"no policy {text!r}: there are {', '.join(NAMED)}, and files in TOML")


def read_policy(path: Path) -> SimPolicy:
    """A file that says in what a policy differs from a named one. Raises `PolicyError`."""
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"{path}: is no TOML: {error}") from error
    return _Reader(str(path), said).policy(path.stem)


Choice = TypeVar("Choice", bound=StrEnum)
_CHOICES = ("order", "backfill", "placing", "lengths", "walls", "best_effort")
_NUMBERS: dict[str, tuple[type, float, float]] = {
    "reservations": (int, 1, 10**6),
    "min_run_s": (float, 0, MAX_S),
    "max_preemptions": (int, 0, 10**6),
}
"""What each is, and the least and the most it may be."""


@dataclass(frozen=True)
class _Reader:
    file: str
    said: dict[str, Any]

    def policy(self, name: str) -> SimPolicy:
        known = ("base", "name", *_CHOICES, *_NUMBERS, "checkpoints", "weights")
        self._check_keys(self.said, known, "")
        base = NAMED[self._choice("base", NAMED)] if "base" in self.said else NAMED["carrel"]
        own: dict[str, Any] = {key: self._number(key) for key in _NUMBERS if key in self.said}
        if "weights" in self.said:
            own["weights"] = self._weights(base.policy)
        own["order"] = self._chosen("order", Order, base.policy.order)
        own["backfill"] = self._chosen("backfill", Backfill, base.policy.backfill)
        own["placing"] = self._chosen("placing", Placing, base.policy.placing)
        return SimPolicy(
            self._text("name", name),
            replace(base.policy, **own),
            lengths=self._chosen("lengths", Known, base.lengths),
            walls=self._chosen("walls", Walls, base.walls),
            best_effort=self._chosen("best_effort", BestEffort, base.best_effort),
            checkpoints=self._yes_or_no("checkpoints", base.checkpoints),
        )

    def _chosen(self, key: str, kind: type[Choice], default: Choice) -> Choice:
        return kind(self._choice(key, kind)) if key in self.said else default

    def _weights(self, policy: Policy) -> PriorityWeights:
        table = self.said["weights"]
        if not isinstance(table, dict):
            raise self._error("weights", "must be a table")
        self._check_keys(table, [one.name for one in fields(policy.weights)], "weights.")
        weights = policy.weights
        for key, value in table.items():
            if not _is_number(value):
                raise self._error(f"weights.{key}", f"must be a number, not {shortened(value)}")
            try:
                weights = replace(weights, **{key: value})
            except ValueError as error:
                raise self._error(f"weights.{key}:", str(error)) from error
        return weights

    def _check_keys(self, table: dict[str, Any], known: Iterable[str], prefix: str) -> None:
        for key in table:
            if key not in known:
                raise PolicyError(
                    f"{self.file}: unknown key {prefix + key!r}; there are {', '.join(known)}"
                )

    def _choice(self, key: str, known: Iterable[str]) -> str:
        value = self.said[key]
        if value not in list(known):
            raise self._error(key, f"must be one of {', '.join(known)}, not {shortened(value)}")
        return str(value)

    def _number(self, key: str) -> Any:
        kind, least, most = _NUMBERS[key]
        value = self.said[key]
        fits = _is_number(value) and (kind is float or isinstance(value, int))
        if not fits or not least <= value <= most:
            what = "whole number" if kind is int else "number"
            bounds = f"from {least:g} to {most:,}"
            raise self._error(key, f"must be a {what} {bounds}, not {shortened(value)}")
        return kind(value)

    def _yes_or_no(self, key: str, default: bool) -> bool:
        value = self.said.get(key, default)
        if not isinstance(value, bool):
            raise self._error(key, f"must be true or false, not {shortened(value)}")
        return value

    def _text(self, key: str, default: str) -> str:
        value = self.said.get(key, default)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._error(key, f"must be a word, not {shortened(value)}")
        return value.strip()

    def _error(self, key: str, problem: str) -> PolicyError:
        return PolicyError(f"{self.file}: {key} {problem}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
