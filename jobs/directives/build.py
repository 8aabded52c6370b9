"""A script and a form's fields together -> a specification, or everything that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from jobs.directives import formats, hardware
from jobs.directives.lines import Notice, directives, launcher_notices, normalized
from jobs.directives.options import OPTIONS, Given, Read, checked, read, word
from jobs.directives.resolve import Resolved
from jobs.rules import SpecError, check_name, check_script, check_variable, check_workdir
from jobs.spec import JobSpec, Resources

MAX_TOLD = 100
_SPEC = frozenset(item.name for item in fields(JobSpec)) - {"script", "resources"}
_WALLTIME = frozenset({"walltime", *OPTIONS["--time"].names})
_TRUE = frozenset({"1", "true", "on", "yes"})
_FALSE = frozenset({"0", "false", "off", "no"})


class SpecErrors(ValueError):
    """Everything wrong with a request, in the order of the script and then of the form."""

    def __init__(self, errors: Iterable[SpecError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, self.errors)))


@dataclass(frozen=True)
class Parsed:
    """What a script's directives come to.

    `settings` has the fields of `JobSpec` and of `Resources` that they set, by name; what is
    wrong is left out of it and told in `errors`. An error's and a warning's `field` is the
    directive as written, and its `line` where it stands.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[SpecError, ...] = ()
    warnings: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Checked:
    """A live check: the specification when nothing is wrong, and all there is to say."""

    spec: JobSpec | None
    errors: tuple[SpecError, ...]
    warnings: tuple[Notice, ...]
    given: Mapping[str, Given]


@dataclass(frozen=True)
class Built:
    """A request that is right in itself, and what its author should know about it."""

    spec: JobSpec
    warnings: tuple[Notice, ...]
    given: Mapping[str, Given]
    """Its settings by name, as they were given and as they were resolved, and who gave each."""

    def blame(self, problem: SpecError) -> SpecError:
        """The same error where it was given: at its line of the script or its field."""
        return _at_giver(problem, self.given)


def parse(script: str, *, now: datetime) -> Parsed:
    """What the `#SBATCH` lines of the script say. Never raises, whatever the script is.

    `now`, with a time zone, is what times without one are relative to and read in.
    """
    found = _read(normalized(script), now)
    resolved = Resolved(found.given)
    settings = {name: item.value for name, item in found.given.items() if name in _SPEC}
    errors = found.errors + resolved.errors
    _resources(resolved, errors)
    return Parsed(
        settings | resolved.values,
        _told(errors, SpecError),
        _told(found.notices + resolved.notices, Notice),
    )


def usual_walltime(partition: str | None) -> int:
    """Where no partition has one of its own."""
    return JobSpec.walltime_s


def build_spec(
    script: str,
    overrides: Mapping[str, Any],
    now: datetime,
    walltime_of: Callable[[str | None], int] = usual_walltime,
) -> Built:
    """The job that a script and the fields of a form ask for. Raises `SpecErrors`.

    `overrides`: name, project, partition, band, nodes, gpus_per_node, gpu_model, shards,
    max_switches, tasks_per_node, cpus_per_task, memory ("16G", per node), walltime ("1:00:00"),
    workdir, environment (a NAME=VALUE a line), array, dependency, begin, held, and `command` in
    place of a script; text as typed, where nothing but spaces means not given. A field wins over
    a directive; variables are merged, name by name. CRLF becomes a plain newline, for that is what
    browsers send. `walltime_of` tells the seconds of a partition's jobs that give no walltime, by
    the name they ask for or None.
    """
    found = check(script, overrides, now, walltime_of)
    if found.spec is None:
        raise SpecErrors(found.errors)
    return Built(found.spec, found.warnings, found.given)


def check(
    script: str,
    overrides: Mapping[str, Any],
    now: datetime,
    walltime_of: Callable[[str | None], int] = usual_walltime,
) -> Checked:
    """As `build_spec`, but returning what is wrong, and the warnings too."""
    form: dict[str, Given] = {}
    errors: list[SpecError] = []
    command = str(overrides.get("command") or "")
    if command.strip():
        if script.strip():
            errors.append(SpecError("command", "give a script or a command, not both"))
        script = f"#!/bin/bash\n{command}\n"
        form["name"] = Given(_title(command), "command")
    elif not script.strip():
        errors.append(SpecError("script", "is empty; give a script or a command"))
        script = "#!/bin/sh\n"
    script = normalized(script)
    _read_form(overrides, now, form, errors)
    found = _read(script, now)
    given = _merge(found.given, form)
    resolved = Resolved(given)
    errors += found.errors + resolved.errors
    notices = found.notices + resolved.notices
    if not script.startswith("#!"):
        notices.append(Notice("script", "names no interpreter (#!...): /bin/bash runs it", 1))
    usual_s = walltime_of(given["partition"].value if "partition" in given else None)
    if "walltime_s" not in given and _WALLTIME.isdisjoint(error.field for error in errors):
        minutes = usual_s // 60
        notices.append(Notice("walltime", f"not given: the job is stopped after {minutes} minutes"))
    spec = _assemble(script, given, resolved, errors, usual_s)
    if errors:
        spec = None
    givers = {**given, **resolved.givers}
    return Checked(spec, _told(errors, SpecError), _told(notices, Notice), givers)


def _read(script: str, now: datetime) -> Read:
    lines, errors, notices = directives(script)
    found = read(lines, now)
    found.errors += errors
    found.notices += notices + launcher_notices(script)
    return found


def _told(items: list[Any], more: Callable[[str, str], Any]) -> tuple[Any, ...]:
    """By line; what has no line comes last, and of a hopeless number only the first."""
    found = sorted(items, key=lambda item: (item.line is None, item.line or 0))
    if len(found) > MAX_TOLD:
        found[MAX_TOLD:] = [more("script", f"{len(found) - MAX_TOLD:,} more are not listed")]
    return tuple(found)


def _title(command: str) -> str:
    """A name for a job that is only a command: its first line, cut."""
    line = " ".join(command.strip().splitlines()[0].split())
    return "".join(char for char in line if char.isprintable())[:60] or "command"


def _resources(resolved: Resolved, errors: list[SpecError]) -> Resources:
    try:
        return Resources(**resolved.values)
    except SpecError as problem:
        errors.append(_at_giver(problem, resolved.givers))
        return Resources()


def _assemble(
    script: str,
    given: Mapping[str, Given],
    resolved: Resolved,
    errors: list[SpecError],
    walltime_s: int,
) -> JobSpec | None:
    """Builds part by part, so that one wrong part hides no other."""
    resources = _resources(resolved, errors)
    try:
        check_script(script)
    except SpecError as problem:
        errors.append(problem)
        script = "#!/bin/sh\n"
    values = {name: item.value for name, item in given.items() if name in _SPEC}
    try:
        usual: dict[str, Any] = {"name": "job", "walltime_s": walltime_s}
        return JobSpec(**(usual | values), script=script, resources=resources)
    except SpecError as problem:
        errors.append(_at_giver(problem, given))
        return None


_GPUS = ("gpus", "gpus_per_node", "gpus_per_task", "gres", "shards")
"""All ways in which GPUs are asked for."""
_FIELD_TO_SETTING = {
    "memory": "memory_mib",
    "walltime": "walltime_s",
    "begin": "begin_at",
    "deadline": "deadline_at",
    "dependency": "dependencies",
    "signal": "warning",
    "switches": "max_switches",
}


def _at_giver(problem: SpecError, givers: Mapping[str, Given]) -> SpecError:
    settings = _GPUS if problem.field == "gpus" else (problem.field,)
    named = (givers.get(_FIELD_TO_SETTING.get(name, name)) for name in settings)
    giver = next(filter(None, named), None)
    return giver.error(problem.message) if giver else problem


_REPLACES = {
    "tasks_per_node": {"tasks_per_node", "ntasks"},
    "gpus_per_node": set(_GPUS),
    "shards": set(_GPUS),
    "memory_mib": {"memory_mib", "memory_per_cpu", "memory_per_gpu"},
}
"""What a field of the form stands for: all ways in which a script may have said it."""


def _merge(script: Mapping[str, Given], form: Mapping[str, Given]) -> dict[str, Given]:
    gone = {other for name, item in form.items() for other in _replaced(name, item)}
    given = {name: item for name, item in script.items() if name not in gone} | dict(form)
    if "environment" in form and "environment" in script:
        both = dict(script["environment"].value) | dict(form["environment"].value)
        given["environment"] = Given(tuple(both.items()), form["environment"].field)
    return given


def _replaced(name: str, item: Given) -> set[str]:
    # No parts of a GPU is no word against whole ones.
    if name == "shards" and not item.value:
        return {name}
    return _REPLACES.get(name, {name})


def _held(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError("must be on or off")
    return text.lower() in _TRUE


def _environment(text: str) -> tuple[tuple[str, str], ...]:
    """A NAME=VALUE a line; the value is all that follows, quotes and spaces too."""
    found: dict[str, str] = {}
    for number, line in enumerate(normalized(text).split("\n"), start=1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        name = name.strip()
        try:
            if not equals:
                raise ValueError(f"{line[:60]!r} is not NAME=VALUE")
            check_variable(name, value)
            if name in found:
                raise ValueError(f"{name} is given twice; give it once")
        except SpecError as problem:
            raise ValueError(f"line {number}: {problem.message}") from None
        except ValueError as problem:
            raise ValueError(f"line {number}: {problem}") from None
        found[name] = value
    return tuple(found.items())


_FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "name": ("name", checked(check_name)),
    "project": ("project", checked(check_name)),
    "partition": ("partition", checked(check_name)),
    "nodes": ("nodes", formats.whole),
    "gpus_per_node": ("gpus_per_node", lambda text: formats.whole(text, 0)),
    "gpu_model": ("gpu_model", word),
    "shards": ("shards", lambda text: formats.whole(text, 0)),
    "max_switches": ("max_switches", hardware.switches),
    "band": ("band", formats.band),
    "tasks_per_node": ("tasks_per_node", formats.whole),
    "cpus_per_task": ("cpus_per_task", formats.whole),
    "memory": ("memory_mib", formats.memory),
    "walltime": ("walltime_s", formats.walltime),
    "workdir": ("workdir", checked(check_workdir)),
    "environment": ("environment", _environment),
    "array": ("array", formats.array),
    "dependency": ("dependencies", formats.dependencies),
    "held": ("held", _held),
}


def _read_form(
    overrides: Mapping[str, Any], now: datetime, form: dict[str, Given], errors: list[SpecError]
) -> None:
    for name, typed in overrides.items():
        text = "" if typed is None else str(typed)
        if name == "command" or not text.strip():
            continue
        if name != "environment":
            text = text.strip()
        try:
            if name == "begin":
                form["begin_at"] = Given(formats.moment(text, now), name)
            elif name in _FIELDS:
                setting, reader = _FIELDS[name]
                form[setting] = Given(reader(text), name)
            else:
                errors.append(SpecError(name, "is not a field of a job"))
        except SpecError as problem:
            errors.append(SpecError(name, problem.message))
        except ValueError as problem:
            errors.append(SpecError(name, str(problem)))
