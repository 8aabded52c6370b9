"""The `sbatch` options that are understood: one table from an option to what it sets."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobs.directives import formats, hardware
from jobs.directives.lines import Notice, Words
from jobs.rules import SpecError, check_name, check_pattern, check_words, check_workdir

Values = Mapping[str, Any]
Reader = Callable[[str, datetime], Values]


@dataclass(frozen=True)
class Given:
    """A value and who gave it: a directive with its line, or a field of the form (no line)."""

    value: Any
    field: str
    line: int | None = None

    def error(self, message: str) -> SpecError:
        """An error that points at the giver."""
        return SpecError(self.field, message, self.line)


@dataclass
class Read:
    """What the directives of a script say, each value as written, before they are combined."""

    given: dict[str, Given] = field(default_factory=dict)
    errors: list[SpecError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


@dataclass(frozen=True)
class Option:
    """One option. `read` gives the settings that its value stands for.

    `remark` is what a person should know about such a value, or nothing.
    """

    names: tuple[str, ...]
    read: Reader
    value: str = "required"
    """`required`, `none`, or `optional` (only as --name=VALUE)."""
    remark: Callable[[str], str] = lambda text: ""


def _one(name: str, read: Callable[[str], Any]) -> Reader:
    return lambda text, now: {name: read(text)}


def _timed(name: str) -> Reader:
    return lambda text, now: {name: formats.moment(text, now)}


def checked(check: Callable[[str], None]) -> Callable[[str], str]:
    """A reader that takes the text as it is, if the check lets it."""

    def read(text: str) -> str:
        check(text)
        return text

    return read


def _pattern(text: str) -> None:
    check_pattern("", text)


def word(text: str) -> str:
    """A name of one word, of a partition or a GPU model."""
    check_words("", (text,))
    return text


def _gpus(name: str, read: Callable[[str], tuple[str | None, int]]) -> Reader:
    def found(text: str, now: datetime) -> Values:
        model, number = read(text)
        return {name: number} | ({"gpu_model": model} if model else {})

    return found


def _gres(text: str, now: datetime) -> Values:
    """Of several `--gres` the last counts, so each says of both kinds how many there are."""
    found = hardware.gres(text)
    return {"gres": found.gpus, "shards": found.shards} | (
        {"gpu_model": found.model} if found.model else {}
    )


def _hosts(name: str) -> Reader:
    def read(text: str) -> tuple[str, ...]:
        if "/" in text:
            raise ValueError("a file of node names is not read; write n1,n2 or n[1-3]")
        found = hardware.hosts(text)
        check_words("", found)
        return found

    return _one(name, read)


def _exclusive(text: str, now: datetime) -> Values:
    if text:
        raise ValueError("takes no value here; --exclusive alone asks for whole nodes")
    return {"exclusive": True}


def _features(text: str) -> tuple[str, ...]:
    found = hardware.features(text)
    check_words("", found)
    return found


def _ignored(text: str, now: datetime) -> Values:
    return {}


def _without_effect(*names: str, because: str, value: str = "required") -> Option:
    return Option(names, _ignored, value, lambda text: f"has no effect: {because}")


def _signal_remark(text: str) -> str:
    """Slurm's B: spares the programs that the script has started."""
    if "B" not in text.upper().rpartition(":")[0]:
        return ""
    return (
        "the signal reaches every process of the task, not the script's shell alone (B:); "
        "let the programs it starts handle or ignore it"
    )


def _switches_remark(text: str) -> str:
    number, _, wait = text.partition("@")
    if not wait:
        return ""
    few = "one switch" if number == "1" else f"{number} switches"
    return f"@{wait} has no effect: however long it takes, the job waits for room below {few}"


_NO_MAIL = "Carrel sends no mail; the job's page shows what happens"

_ALL = (
    Option(("--job-name", "-J"), _one("name", checked(check_name))),
    Option(("--partition", "-p"), _one("partition", word)),
    Option(("--account", "-A"), _one("project", checked(check_name))),
    Option(("--time", "-t"), _one("walltime_s", formats.walltime)),
    Option(("--nodes", "-N"), _one("nodes", hardware.nodes)),
    Option(("--ntasks", "-n"), _one("ntasks", formats.whole)),
    Option(("--ntasks-per-node",), _one("tasks_per_node", formats.whole)),
    Option(("--cpus-per-task", "-c"), _one("cpus_per_task", formats.whole)),
    Option(("--mem",), _one("memory_mib", formats.memory)),
    Option(("--mem-per-cpu",), _one("memory_per_cpu", formats.memory)),
    Option(("--mem-per-gpu",), _one("memory_per_gpu", formats.memory)),
    Option(("--gres",), _gres),
    Option(("--gpus", "-G"), _gpus("gpus", hardware.gpus)),
    Option(("--gpus-per-node",), _gpus("gpus_per_node", hardware.gpus)),
    Option(("--gpus-per-task",), _gpus("gpus_per_task", hardware.gpus)),
    Option(("--constraint", "-C"), _one("features", _features)),
    Option(("--nodelist", "-w"), _hosts("only_nodes")),
    Option(("--exclude", "-x"), _hosts("not_nodes")),
    Option(("--exclusive",), _exclusive, "optional"),
    Option(("--array", "-a"), _one("array", formats.array)),
    Option(("--dependency", "-d"), _one("dependencies", formats.dependencies)),
    Option(("--begin", "-b"), _timed("begin_at")),
    Option(("--deadline",), _timed("deadline_at")),
    Option(("--output", "-o"), _one("stdout", checked(_pattern))),
    Option(("--error", "-e"), _one("stderr", checked(_pattern))),
    Option(("--chdir", "-D"), _one("workdir", checked(check_workdir))),
    Option(("--signal",), _one("warning", formats.warning), remark=_signal_remark),
    Option(("--hold", "-H"), lambda text, now: {"held": True}, "none"),
    Option(("--qos", "-q"), _one("band", formats.band)),
    Option(("--nice",), _one("nice", formats.nice), "optional"),
    Option(("--switches",), _one("max_switches", hardware.switches), remark=_switches_remark),
    Option(("--requeue",), lambda text, now: {"requeue": True}, "none"),
    Option(("--no-requeue",), lambda text, now: {"requeue": False}, "none"),
    Option(("--export",), _one("environment", formats.exports)),
    _without_effect("--mail-type", because=_NO_MAIL),
    _without_effect("--mail-user", because=_NO_MAIL),
    _without_effect("--comment", because="comments are not kept"),
)
_OWN = (Option(("--keep-checkpoints",), _one("keep_checkpoints", formats.keep)),)
"""Those that Slurm does not have."""


def _by_name(options: Iterable[Option]) -> dict[str, Option]:
    return {name: option for option in options for name in option.names}


OPTIONS = _by_name(_ALL)
_BY_MARKER = {"#SBATCH": OPTIONS, "#CARREL": _by_name(_OWN)}
"""By how the lines begin that they stand on."""


def read(lines: list[Words], now: datetime) -> Read:
    """What the lines set; of an option given twice the last counts, as in Slurm."""
    found = Read()
    for line in lines:
        for written, option, value in _options(line, found.errors):
            _apply(found, option, written, value, line.line, now)
    return found


def _apply(found: Read, option: Option, written: str, value: str, line: int, now: datetime) -> None:
    try:
        values = option.read(value, now)
    except SpecError as problem:
        found.errors.append(SpecError(written, problem.message, line))
        return
    except ValueError as problem:
        found.errors.append(SpecError(written, str(problem), line))
        return
    if remark := option.remark(value):
        found.notices.append(Notice(written, remark, line))
    for name, item in values.items():
        found.given[name] = Given(item, written, line)


def _options(line: Words, errors: list[SpecError]) -> Iterator[tuple[str, Option, str]]:
    """Each option of a line as (as written, option, value); what is none goes to `errors`."""
    words = list(reversed(line.words))
    while words:
        word = words.pop()
        if not word.startswith("-") or word in {"-", "--"}:
            errors.append(
                SpecError(
                    line.marker, f"{word[:60]!r} is no option; options begin with -", line.line
                )
            )
            continue
        name, value = _name_and_value(word)
        option = _BY_MARKER[line.marker].get(name)
        if option is None:
            errors.append(SpecError(name[:60], _why_not(name), line.line))
            # Most likely its value: said once is enough.
            if value is None and words and not words[-1].startswith("-"):
                words.pop()
            continue
        if option.value == "none" and value is not None:
            if name.startswith("--"):
                errors.append(SpecError(name, "takes no value; write it alone", line.line))
                continue
            # Short ones may be joined: -HJ name.
            words.append(f"-{value}")
            value = None
        if option.value == "required" and value is None:
            if not words:
                errors.append(SpecError(name, "needs a value after it", line.line))
                continue
            value = words.pop()
        yield name, option, value or ""


def _name_and_value(word: str) -> tuple[str, str | None]:
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    return word[:2], word[2:] or None


def _why_not(name: str) -> str:
    """Of an option that does not belong on the line where it stands."""
    for marker, options in _BY_MARKER.items():
        if name in options:
            return f"belongs on a line that begins with {marker}"
    return f"is not known here{_similar(name)}"


def _similar(name: str) -> str:
    starting = [known for known in OPTIONS if len(name) > 3 and known.startswith(name)]
    close = starting or difflib.get_close_matches(name[:60], OPTIONS, n=1, cutoff=0.7)
    return f"; did you mean {' or '.join(sorted(close))}?" if close else "; take it out"
