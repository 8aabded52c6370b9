"""A specification as plain JSON values and back, without loss: how it is kept in a database.

Every field is written out by name, so that what an older version stored stays readable: a field
that is missing gets its default. One that is unknown is refused, because to drop what a person
asked for would be to run another job than theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from jobs.bands import Band
from jobs.rules import SpecError, is_set_by_carrel
from jobs.spec import Array, Dependency, DependencyKind, JobSpec, Keep, Resources, WarningSignal


def to_dict(spec: JobSpec) -> dict[str, Any]:
    """The specification as values that `json.dumps` takes; times are ISO 8601 with offset."""
    found = {item.name: getattr(spec, item.name) for item in fields(JobSpec)}
    found["resources"] = _resources_to_dict(spec.resources)
    found["environment"] = [list(pair) for pair in spec.environment]
    found["dependencies"] = [
        {"kind": wait.kind.value, "job_id": wait.job_id} for wait in spec.dependencies
    ]
    if spec.array is not None:
        found["array"] = {"indices": list(spec.array.indices), "limit": spec.array.limit}
    if spec.warning is not None:
        found["warning"] = {"number": spec.warning.number, "before_s": spec.warning.before_s}
    if spec.keep_checkpoints is not None:
        found["keep_checkpoints"] = asdict(spec.keep_checkpoints)
    if spec.band is not None:
        found["band"] = spec.band.value
    for name in ("begin_at", "deadline_at"):
        if found[name] is not None:
            found[name] = found[name].isoformat()
    return found


def from_dict(data: Mapping[str, Any]) -> JobSpec:
    """The specification that `to_dict` wrote. Raises `SpecError` for anything else."""
    try:
        return JobSpec(**_read(data, JobSpec, _SPEC_READERS))
    except SpecError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as problem:
        raise SpecError("specification", f"is not one that Carrel stored: {problem}") from problem


def resources(data: Mapping[str, Any]) -> Resources:
    """The part of it that says what each node must give."""
    return Resources(**_read(data, Resources, _RESOURCE_READERS))


def _resources_to_dict(asked: Resources) -> dict[str, Any]:
    found = {item.name: getattr(asked, item.name) for item in fields(Resources)}
    for name in ("features", "only_nodes", "not_nodes"):
        found[name] = list(found[name])
    return found


def _read(
    data: Mapping[str, Any], target: type, readers: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    known = {item.name for item in fields(target)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise SpecError(unknown[0], "is not a field that this version of Carrel knows")
    return {
        name: readers[name](value) if name in readers and value is not None else value
        for name, value in data.items()
    }


def _variables(value: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    # More are set by Carrel than when it was stored, and what it sets wins.
    pairs = ((str(name), str(text)) for name, text in value)
    return tuple(pair for pair in pairs if not is_set_by_carrel(pair[0]))


def _strings(value: Iterable[Any]) -> tuple[str, ...]:
    return tuple(str(item) for item in value)


_RESOURCE_READERS: dict[str, Callable[[Any], Any]] = {
    "features": _strings,
    "only_nodes": _strings,
    "not_nodes": _strings,
}
_SPEC_READERS: dict[str, Callable[[Any], Any]] = {
    "resources": resources,
    "environment": _variables,
    "dependencies": lambda value: tuple(
        Dependency(DependencyKind(wait["kind"]), wait["job_id"]) for wait in value
    ),
    "array": lambda value: Array(tuple(value["indices"]), value["limit"]),
    "warning": lambda value: WarningSignal(value["number"], value["before_s"]),
    "keep_checkpoints": lambda value: Keep(value["last"], value["every"]),
    "band": Band,
    "begin_at": datetime.fromisoformat,
    "deadline_at": datetime.fromisoformat,
}
