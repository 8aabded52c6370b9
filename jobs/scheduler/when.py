"""When something is expected, in words that people use: the further off, the rougher."""

from __future__ import annotations

from datetime import datetime, timedelta

SOON = timedelta(minutes=2)
NEAR = timedelta(minutes=57)
"""Any later, minutes would round to an hour: then the time of day is told."""
STEP_S = 300
"""Times of day are told to five minutes, and to half an hour beyond `FAR`."""
FAR_STEP_S = 1800
FAR = timedelta(hours=12)
NAMED_DAYS = 6
"""So many days ahead a weekday says enough; later ones are told by their date alone."""


def about(at: datetime, now: datetime) -> str:
    """`any moment now`, `in about 25 min`, `about 14:05`, `about 09:30 tomorrow`, `about 24 Dec`.

    In the time zone of `now`.
    """
    left = at - now
    if left < SOON:
        return "any moment now"
    if left < NEAR:
        minutes = round(left.total_seconds() / 60)
        return f"in about {minutes if minutes < 10 else 5 * round(minutes / 5)} min"
    return f"about {_said(_words(_rounded(at, now, 0.5), now))}"


def spread(at: datetime, early: datetime, late: datetime, now: datetime) -> str:
    """What goes with `about(at, now)`: `between 13:40 and 15:20`, `between now and 02:00 tomorrow`;
    `or as late as 15:20` of what may be any moment now. Empty where there is no spread, or none
    that such words would tell."""
    if late - early < SOON or late - now < SOON:
        return ""
    first, last = _words(_rounded(early, now, 0.0), now), _words(_rounded(late, now, 1.0), now)
    if at - now < SOON:
        return f"or as late as {_said(last)}"
    if early - now < SOON:
        first = ("now", "")
    elif first == last:
        return ""
    elif first[1] == last[1] and first[0]:
        first = (first[0], "")
    return f"between {_said(first)} and {_said(last)}"


def _rounded(at: datetime, now: datetime, up: float) -> datetime:
    """To whole steps: down for `up` 0, up for 1, to the nearest for a half."""
    step = FAR_STEP_S if at - now > FAR else STEP_S
    seconds = at.timestamp()
    rest = seconds % step
    down = seconds - rest
    return datetime.fromtimestamp(down + step if rest > step * (1 - up) else down, now.tzinfo)


def _words(local: datetime, now: datetime) -> tuple[str, str]:
    """The time of day and the day; the first is empty for those far off, the second for today."""
    days = (local.date() - now.date()).days
    clock = f"{local:%H:%M}"
    if days < 1:
        return clock, ""
    if days == 1:
        return clock, "tomorrow"
    if days <= NAMED_DAYS:
        return clock, f"on {local:%A}"
    year = f" {local.year}" if local.year != now.year else ""
    return "", f"{local.day} {local:%b}{year}"


def _said(words: tuple[str, str]) -> str:
    return " ".join(filter(None, words))
