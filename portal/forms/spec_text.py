"""A specification's values as people write them: for the form's fields and for reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from jobs.directives import check
from jobs.outcome import signal_name
from jobs.rules import SpecError
from jobs.scheduler.fit import shards
from jobs.scheduler.words import count, memory
from jobs.spec import Array, Dependency, JobSpec, Keep, Resources, WarningSignal
from jobs.spec_json import from_dict


def stored(spec: Mapping[str, Any]) -> JobSpec:
    """What a job's row keeps, which is all but the script. Raises `SpecError`."""
    return from_dict({**spec, "script": "#!/bin/sh\n"})


def readable(spec: Mapping[str, Any]) -> JobSpec | None:
    """The same; None for what this version cannot read."""
    try:
        return stored(spec)
    except SpecError:
        return None


def asks_for(resources: Resources) -> str:
    """`2 nodes with 4 A100 GPUs, 8 CPUs, 64 GiB each`."""
    model = f"{resources.gpu_model} " if resources.gpu_model else ""
    parts = [count(resources.gpus_per_node, f"{model}GPU")] if resources.gpus_per_node else []
    if resources.shards:
        parts.append(shards(resources))
    parts.append(count(resources.cpus, "CPU"))
    if resources.memory_mib is not None:
        parts.append(memory(resources.memory_mib))
    whole = " alone" if resources.exclusive else ""
    each = " each" if resources.nodes > 1 else ""
    return f"{count(resources.nodes, 'node')}{whole} with {', '.join(parts)}{each}"


def clock(seconds: int) -> str:
    """A walltime as Slurm writes it: `4:00:00`, `2-12:00:00`."""
    days, rest = divmod(seconds, 86_400)
    hours, minutes, left = rest // 3600, rest % 3600 // 60, rest % 60
    return (
        f"{days}-{hours:02}:{minutes:02}:{left:02}" if days else f"{hours}:{minutes:02}:{left:02}"
    )


def indices(array: Array) -> str:
    """`0-9,12,20-30%4`."""
    runs: list[list[int]] = []
    for index in array.indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], index]
        else:
            runs.append([index])
    text = ",".join("-".join(map(str, run)) for run in runs)
    return text if array.limit is None else f"{text}%{array.limit}"


def waits(dependencies: tuple[Dependency, ...]) -> str:
    """`afterok:17,singleton`."""
    return ",".join(
        wait.kind.value if wait.job_id is None else f"{wait.kind.value}:{wait.job_id}"
        for wait in dependencies
    )


def variables(environment: tuple[tuple[str, str], ...]) -> str:
    """One NAME=VALUE a line."""
    return "\n".join(f"{name}={value}" for name, value in environment)


def form_values(spec: JobSpec) -> dict[str, str | bool]:
    """The submit form filled with a specification, less its script."""
    asked = spec.resources
    return {
        "name": spec.name,
        "project": spec.project or "",
        "partition": spec.partition or "",
        "band": spec.band or "",
        "nodes": str(asked.nodes),
        "max_switches": "" if asked.max_switches is None else str(asked.max_switches),
        "shards": str(asked.shards),
        "gpus_per_node": str(asked.gpus_per_node),
        "gpu_model": asked.gpu_model or "",
        "tasks_per_node": str(asked.tasks_per_node),
        "cpus_per_task": str(asked.cpus_per_task),
        "memory": "" if asked.memory_mib is None else f"{asked.memory_mib}M",
        "walltime": clock(spec.walltime_s),
        "workdir": spec.workdir,
        "environment": variables(spec.environment),
        "array": indices(spec.array) if spec.array else "",
    }


def only_in_script(script: str, spec: Mapping[str, Any], submitted_at: datetime) -> list[str]:
    """What a script asks for, and the job that was submitted with it does not. A relaunch does so
    again: no field of the form can say that it is not wanted."""
    said = check(script, {}, timezone.localtime(submitted_at)).spec
    asked = readable(spec)
    if said is None or asked is None:
        return []
    kept = _conditions(asked)
    return [
        f"{name} {text}".strip() for name, text in _conditions(said).items() if name not in kept
    ]


def _conditions(spec: JobSpec) -> dict[str, str]:
    """What narrows down where and when it may start; a name stands for itself where it has no
    text."""
    asked = spec.resources
    found = {
        "GPU model": asked.gpu_model,
        "memory": None if asked.memory_mib is None else memory(asked.memory_mib),
        "whole nodes": "" if asked.exclusive else None,
        "switches:": f"{asked.max_switches} at most" if asked.max_switches else None,
        "features:": " and ".join(asked.features) or None,
        "only nodes": ", ".join(asked.only_nodes) or None,
        "none of": ", ".join(asked.not_nodes) or None,
        "begin": _moment(spec.begin_at),
        "deadline": _moment(spec.deadline_at),
    }
    found |= {f"dependency {waits((wait,))}": "" for wait in spec.dependencies}
    return {name: text for name, text in found.items() if text is not None}


def settings_shown(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """(name, text) of what was set beyond the usual, for reading."""
    asked = spec.resources
    shown: dict[str, str | None] = {
        "Band": spec.band,
        "Nice": str(spec.nice) if spec.nice else None,
        "Switches": f"{asked.max_switches} at most" if asked.max_switches else None,
        "Requeue": None if spec.requeue is None else ("yes" if spec.requeue else "never"),
        "Keeps checkpoints": _kept(spec.keep_checkpoints),
        "Tasks per node": str(asked.tasks_per_node) if asked.tasks_per_node > 1 else None,
        "Features": " and ".join(asked.features),
        "Only on": ", ".join(asked.only_nodes),
        "Not on": ", ".join(asked.not_nodes),
        "Directory": spec.workdir or "the account's home",
        "Environment": variables(spec.environment),
        "Array": _task(spec.array) if spec.array else None,
        "Depends on": waits(spec.dependencies),
        "Begins at": _moment(spec.begin_at),
        "Deadline": _moment(spec.deadline_at),
        "Output to": spec.stdout,
        "Errors to": spec.stderr,
        "Warning": _warning(spec.warning),
    }
    yield from ((name, text) for name, text in shown.items() if text)


def _task(array: Array) -> str:
    """Of a job that is one task of its array, and keeps the index of no other."""
    index = f"index {indices(replace(array, limit=None))}"
    return index if array.limit is None else f"{index}; {array.limit} of the array at once"


def _warning(warning: WarningSignal | None) -> str | None:
    return f"{signal_name(warning.number)} {warning.before_s} s before its end" if warning else None


def _kept(keep: Keep | None) -> str | None:
    if keep is None:
        return None
    every = f" and every step that {keep.every:,} divides" if keep.every else ""
    return f"the last {keep.last:,}{every}" if keep.last > 1 else f"the last{every}"


def _moment(when: datetime | None) -> str | None:
    return f"{timezone.localtime(when):%F %H:%M %Z}" if when else None
