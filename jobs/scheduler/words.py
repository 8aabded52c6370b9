"""Numbers and names as people say them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta


def count(number: int, thing: str) -> str:
    """`1 node`, `2 nodes`, `1,000 nodes`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def amount(number: float, digits: int = 2) -> str:
    """`16`, `1,000`, `0.25`: to so many digits, without zeros that say nothing."""
    return f"{number:,.{digits}f}".rstrip("0").rstrip(".")


def capital(text: str) -> str:
    """As a sentence begins: `jobs 17 and 18_2` as `Jobs 17 and 18_2`. The rest stays as it is."""
    return text[:1].upper() + text[1:]


def sentence(message: str) -> str:
    """`must be one line` as `Must be one line.`"""
    text = capital(message)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def memory(mib: int) -> str:
    """`16 GiB`, `1.5 GiB`, `900 MiB`: exact, or cut to a tenth."""
    if mib < 1024:
        return f"{mib} MiB"
    whole, rest = divmod(mib, 1024)
    return f"{whole} GiB" if rest == 0 else f"{whole}.{rest * 10 // 1024} GiB"


def listed(names: Iterable[str], most: int = 5) -> str:
    """`n1, n2, n3 and 4 more`."""
    found = list(names)
    if len(found) <= most:
        return ", ".join(found)
    return f"{', '.join(found[: most - 1])} and {len(found) - most + 1} more"


def clock(moment: datetime, now: datetime) -> str:
    """`14:05 UTC`, with the day when it is another one; in the time zone of `now`."""
    local = moment.astimezone(now.tzinfo) if now.tzinfo else moment
    day = "" if local.date() == now.date() else f" on {local.day} {local:%b}"
    if day and local.year != now.year:
        day += f" {local.year}"
    return f"{local:%H:%M} {local:%Z}".strip() + day


def latest(moment: datetime, now: datetime) -> str:
    """As `clock`, but never told too early: a minute that has begun counts as over."""
    return clock(moment.astimezone(UTC) + timedelta(minutes=1, microseconds=-1), now)


def jobs_named(labels: Sequence[str]) -> str:
    """`job 17`, `jobs 17 and 18_2`, `jobs 17, 18_2 and 3 others`."""
    if len(labels) == 1:
        return f"job {labels[0]}"
    if len(labels) <= 3:
        return f"jobs {', '.join(labels[:-1])} and {labels[-1]}"
    return f"jobs {labels[0]}, {labels[1]} and {len(labels) - 2} others"


def span(seconds: float) -> str:
    """`24 h`, `1 h 30 min`: whole minutes that have passed, seconds below one."""
    if seconds < 60:
        return f"{int(seconds)} s"
    hours, minutes = divmod(int(seconds // 60), 60)
    told = ((hours, "h"), (minutes, "min"))
    return " ".join(f"{number:,} {unit}" for number, unit in told if number)
