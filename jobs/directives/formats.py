"""Slurm's ways to write a value: one function each.

Each takes the text as written and raises `ValueError` with what would be right.
"""

from __future__ import annotations

import re
import signal
from datetime import UTC, date, datetime, time, timedelta

from jobs.bands import Band
from jobs.rules import (
    LAST_YEAR,
    MAX_ARRAY_INDEX,
    MAX_ARRAY_TASKS,
    MAX_DEPENDENCIES,
    MAX_NICE,
    MAX_WALLTIME_S,
    check_count,
    check_variable,
)
from jobs.spec import Array, Dependency, DependencyKind, Keep, WarningSignal

DIGITS = re.compile(r"[0-9]{1,18}\Z")
WALLTIME = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?\Z", re.ASCII)
UNLIMITED = {"0", "-1", "unlimited", "infinite"}
_MEMORY = re.compile(r"(\d{1,15})([KMGTkmgt]?)[Bb]?\Z", re.ASCII)
_AHEAD = re.compile(r"now\s*\+\s*(\d{1,9})\s*([a-z]*)\Z", re.ASCII | re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*([AaPp][Mm])?\Z", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?\Z", re.ASCII)
_KIB = {"K": 1, "M": 1024, "G": 1024**2, "T": 1024**3}
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_CLOCK_WORDS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}


def whole(text: str, low: int = 1) -> int:
    """A whole number."""
    if not DIGITS.match(text) or int(text) < low:
        raise ValueError(f"{shown(text)} must be a whole number, {low} or more")
    return int(text)


def walltime(text: str) -> int:
    """Seconds of `m`, `m:s`, `h:m:s`, `d-h`, `d-h:m` or `d-h:m:s`; seconds count exactly."""
    if text.lower() in UNLIMITED:
        raise ValueError("a job needs a time limit here; for example 1-00:00:00 for a day")
    found = WALLTIME.match(text)
    if not found:
        raise ValueError(
            f"{shown(text)} is not a time; write minutes (90), h:m:s (1:30:00), "
            "d-h (2-12) or d-h:m:s (2-12:00:00)"
        )
    days, first, second, third = (None if part is None else int(part) for part in found.groups())
    if days is not None:
        hours, minutes, seconds = first or 0, second or 0, third or 0
    elif third is not None:
        hours, minutes, seconds = first or 0, second or 0, third
    else:
        hours, minutes, seconds = 0, first or 0, second or 0
    total = (((days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    if not 1 <= total <= MAX_WALLTIME_S:
        raise ValueError(f"must be between a second and {MAX_WALLTIME_S // 86_400} days")
    return total


def memory(text: str) -> int:
    """MiB of `16G`, `512M`, `1T`, `2048K`; a plain number is MiB. Rounded up, 0 stays 0."""
    found = _MEMORY.match(text)
    if not found:
        raise ValueError(f"{shown(text)} is not an amount of memory; write it as 16G or 512M")
    number, unit = int(found.group(1)), (found.group(2) or "M").upper()
    return -(-number * _KIB[unit] // 1024)


def moment(text: str, now: datetime) -> datetime:
    """A time in Slurm's forms: `now+1hour`, `16:00`, `2027-01-20T12:34`, `tomorrow`, ...

    A time without a date is the next such time. Without an offset it is in the zone of `now`.
    """
    try:
        found = _moment(text.strip(), now)
    except (ValueError, OverflowError):
        found = None
    if found is None or not 1970 <= found.year <= LAST_YEAR:
        raise ValueError(
            f"{shown(text)} is not a time; write 16:00, now+1hour or {now.year + 1}-01-20T12:34:00"
        )
    return found


def _moment(text: str, now: datetime) -> datetime | None:
    word = text.lower()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word == "now":
        return now
    if word in {"today", "tomorrow"}:
        return midnight + timedelta(days=word == "tomorrow")
    if word in _CLOCK_WORDS:
        return _next(now, time(_CLOCK_WORDS[word]))
    if ahead := _AHEAD.match(text):
        unit = ahead.group(2).lower().removesuffix("s") or "second"
        if unit not in _UNITS:
            return None
        # Not by the clock on the wall, which may be set back or forward meanwhile.
        after = timedelta(seconds=int(ahead.group(1)) * _UNITS[unit])
        return (now.astimezone(UTC) + after).astimezone(now.tzinfo)
    if clock := _CLOCK.match(text):
        hour, minute, second = (int(part or 0) for part in clock.groups()[:3])
        if half := (clock.group(4) or "").lower():
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if half == "pm" else 0)
        return _next(now, time(hour, minute, second))
    if "T" not in text:
        return datetime.combine(date.fromisoformat(text), time(), now.tzinfo)
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)


def _next(now: datetime, clock: time) -> datetime:
    found = datetime.combine(now.date(), clock, now.tzinfo)
    return found if found > now else found + timedelta(days=1)


def array(text: str) -> Array:
    """`0-9`, `1,3,5`, `0-100:10`, each with `%4` for at most four at once."""
    listed, percent, limit = text.partition("%")
    indices: set[int] = set()
    named = 0
    for part in listed.split(","):
        found = _RANGE.match(part)
        if not found:
            raise ValueError(f"{shown(text)} is not an array; write 0-9, 1,3,5 or 0-99:10%4")
        low = int(found.group(1))
        high = int(found.group(2) or low)
        step = int(found.group(3) or 1)
        if step < 1 or high < low:
            raise ValueError(f"{shown(part)} is empty; write the lower index first, step 1 or more")
        if high > MAX_ARRAY_INDEX:
            raise ValueError(f"indices may be at most {MAX_ARRAY_INDEX:,}")
        # Counted first, for a range may name millions, and repeats too.
        named += len(range(low, high + 1, step))
        if named > MAX_ARRAY_TASKS:
            raise ValueError(f"an array may have at most {MAX_ARRAY_TASKS:,} tasks")
        indices.update(range(low, high + 1, step))
    at_once = min(whole(limit), MAX_ARRAY_TASKS) if percent else None
    return Array(tuple(sorted(indices)), at_once)


def dependencies(text: str) -> tuple[Dependency, ...]:
    """`afterok:17:18,afterany:19` and `singleton`; all of them must come true."""
    if "?" in text:
        raise ValueError("'?' (any of them) is not understood; separate with ',': all of them")
    found: list[Dependency] = []
    for part in text.split(","):
        word, *ids = part.strip().split(":")
        try:
            kind = DependencyKind(word.lower())
        except ValueError:
            known = ", ".join(f"{kind}:17" for kind in list(DependencyKind)[:3])
            raise ValueError(f"{shown(part)} is not understood; use {known} or singleton") from None
        if kind is DependencyKind.SINGLETON:
            if ids:
                raise ValueError("singleton takes no job number")
            found.append(Dependency(kind))
            continue
        if len(ids) > MAX_DEPENDENCIES:
            raise ValueError(f"may name at most {MAX_DEPENDENCIES:,} jobs")
        if not ids or not all(DIGITS.match(job_id) and int(job_id) for job_id in ids):
            raise ValueError(f"{shown(part)} needs the numbers of jobs, as in {kind}:17:18")
        found += [Dependency(kind, int(job_id)) for job_id in ids]
    return tuple(dict.fromkeys(found))


def warning(text: str) -> WarningSignal:
    """`B:USR1@120`, `TERM@60`, `10`: the signal, and how many seconds before the end (60)."""
    flags, colon, rest = text.rpartition(":")
    if colon and (not flags or set(flags.upper()) - {"B", "R"}):
        raise ValueError(f"{shown(text)} is not understood; write it as B:USR1@120")
    name, at, before = rest.partition("@")
    before_s = whole(before, 0) if at else 60
    if before_s > 65_535:
        raise ValueError("the warning may come at most 65,535 seconds before the end")
    return WarningSignal(_signal(name), before_s)


def _signal(name: str) -> int:
    if DIGITS.match(name) and 1 <= int(name) <= 64:
        return int(name)
    known = signal.Signals.__members__.get("SIG" + name.upper().removeprefix("SIG"))
    if known is None:
        raise ValueError(f"{shown(name)} is not a signal; write USR1, TERM, INT or a number")
    return int(known)


def band(text: str) -> Band:
    """Slurm's QOS: the name of a band, in small letters or capitals."""
    try:
        return Band(text.lower())
    except ValueError:
        *others, last = Band
        raise ValueError(
            f"{shown(text)} is not a band; use {', '.join(others)} or {last}"
        ) from None


def nice(text: str) -> int:
    """`50`, `-50`; nothing stands for 100, as in Slurm."""
    number = text.removeprefix("-") or "100"
    if not DIGITS.match(number) or text == "-":
        raise ValueError(f"{shown(text)} must be a whole number, as in --nice=100")
    found = -int(number) if text.startswith("-") else int(number)
    check_count("nice", found, -MAX_NICE, MAX_NICE)
    return found


def exports(text: str) -> tuple[tuple[str, str], ...]:
    """`ALL,A=b,C='d,e'`: the variables given. ALL and NONE are the same: there is no shell."""
    found: dict[str, str] = {}
    for part in split(text, {"'": "'", '"': '"'}):
        if part.upper() in {"ALL", "NONE", "NIL", ""}:
            continue
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(
                f"there is no shell to take {shown(part)} from; write {part[:40]}=VALUE"
            )
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        check_variable(name, value)
        found[name] = value
    return tuple(found.items())


def keep(text: str) -> Keep:
    """`last=3`, or `last=3,every=1000` for every step that 1000 divides as well."""
    told: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        if name not in ("last", "every") or name in told or not DIGITS.match(number):
            raise ValueError(f"{shown(text)} is not of the form last=3 or last=3,every=1000")
        told[name] = int(number)
    return Keep(**told)


def split(text: str, pairs: dict[str, str]) -> list[str]:
    """The parts between commas, except commas within a pair (brackets, quotes)."""
    parts = [""]
    closing = ""
    start = 0
    for place, char in enumerate(text):
        if closing:
            closing = "" if char == closing else closing
        elif char == ",":
            parts[-1] = text[start:place]
            parts.append("")
            start = place + 1
        else:
            closing = pairs.get(char, "")
    parts[-1] = text[start:]
    return parts


def shown(text: str) -> str:
    """The text in quotes, cut where it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
