"""From the signs of one look to what becomes of findings: opened, seen again, over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from jobs.nodes.kinds import AGES_S, GONE_LOOKS, Ends, kind
from jobs.nodes.signs import Sign

Key = tuple[str, str]
"""A GPU's UUID, empty for the node, and a kind."""


@dataclass(frozen=True)
class Open:
    """A finding that is not over: when it was last seen, in Unix seconds, and how many looks have
    not found it since."""

    seen_at: float
    absent: int = 0


@dataclass(frozen=True)
class Weighed:
    """What a look changes."""

    opened: Mapping[Sign, float] = field(default_factory=dict)
    """Since when it is so, in Unix seconds."""
    again: tuple[Sign, ...] = ()
    absent: Mapping[Key, int] = field(default_factory=dict)
    """How many looks have not found it by now."""
    over: tuple[Key, ...] = ()
    suspects: Mapping[Key, float] = field(default_factory=dict)
    """What was seen and must last before it counts: since when."""


def weigh(
    signs: Collection[Sign],
    found: Mapping[Key, Open],
    suspects: Mapping[Key, float],
    *,
    now: float,
    blind: Collection[str] = (),
) -> Weighed:
    """`found`: the findings that are not over. Of kinds in `blind` nothing was seen either way."""
    here = {(sign.gpu, sign.kind): sign for sign in signs}
    new = {key: sign for key, sign in here.items() if key not in found}
    since = {key: suspects.get(key, now) for key in new}
    opened = {key for key in new if now - since[key] >= kind(key[1]).after_s}
    unseen = {key: at for key, at in suspects.items() if key[1] in blind and key not in found}
    gone = {key: one for key, one in found.items() if key not in here and key[1] not in blind}
    absent = {key: one.absent + 1 for key, one in gone.items()}
    return Weighed(
        opened={new[key]: since[key] for key in new if key in opened},
        again=tuple(sign for key, sign in here.items() if key in found),
        absent=absent,
        over=tuple(key for key, one in gone.items() if _is_over(key[1], one, absent[key], now)),
        suspects=unseen | {key: at for key, at in since.items() if key not in opened},
    )


def _is_over(name: str, one: Open, absent: int, now: float) -> bool:
    ends = kind(name).ends
    if ends is Ends.GONE:
        return absent >= GONE_LOOKS
    return ends is Ends.OLD and now - one.seen_at >= AGES_S
