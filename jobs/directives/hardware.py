"""Slurm's ways to name GPUs, parts of one, nodes and their features.

As in `formats`, each function takes the text as written and raises `ValueError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.directives.formats import DIGITS, WALLTIME, shown, split, whole
from jobs.rules import MAX_NODES

_GPU_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}\Z")
_GRES = "gpu:2 or gpu:a100:2"
_SHARDS = "shard:2"


@dataclass(frozen=True)
class Gres:
    """Whole GPUs or parts of one; the other is None."""

    gpus: int | None = None
    model: str | None = None
    shards: int | None = None


def gpus(text: str, right: str = "2 or a100:2") -> tuple[str | None, int]:
    """`2`, `a100:2` or `a100` (one): model and number. `right` is what a refusal names."""
    model, colon, number = text.rpartition(":")
    if not colon and not DIGITS.match(text):
        model, number = text, "1"
    if model and not _GPU_MODEL.match(model):
        raise ValueError(f"{shown(text)} is not understood; write {right}, of one model only")
    return model or None, whole(number, 0)


def gres(text: str) -> Gres:
    """`gpu`, `gpu:2`, `gpu:a100:2` or `shard:2`, per node. Other kinds are refused."""
    kind, colon, rest = text.removeprefix("gres:").partition(":")
    if kind not in {"gpu", "shard"} or "," in text:
        raise ValueError(
            f"{shown(text)} is not understood; only GPUs: {_GRES}, or parts of one: {_SHARDS}"
        )
    if kind == "gpu":
        model, number = gpus(rest, _GRES) if colon else (None, 1)
        return Gres(gpus=number, model=model)
    if ":" in rest:
        raise ValueError(
            f"{shown(text)} names a model; write {_SHARDS}, and --constraint=a100 for the model"
        )
    return Gres(shards=whole(rest, 0) if colon else 1)


def switches(text: str) -> int:
    """`2` or `2@12:00:00`: at most so many; how long Slurm would wait for them is looked at."""
    number, at, wait = text.partition("@")
    if at and not WALLTIME.match(wait):
        raise ValueError(f"{shown(text)} is not understood; write it as 1 or 1@10:00")
    return whole(number)


def hosts(text: str) -> tuple[str, ...]:
    """`n1,n2` or `n[1-3,7]`, zeros in front kept: names, in order, each once."""
    found: dict[str, None] = {}
    named = 0
    for part in split(text, {"[": "]"}):
        before, bracket, rest = part.partition("[")
        inside, closing, after = rest.partition("]")
        if not part or (bracket and not closing) or set(before + after) & {"[", "]"}:
            raise ValueError(f"{shown(text)} is not a list of nodes; write n1,n2 or n[1-3]")
        for middle in _numbers(inside) if bracket else [""]:
            found[f"{before}{middle}{after}"] = None
            named += 1
            if named > MAX_NODES:
                raise ValueError(f"may name at most {MAX_NODES:,} nodes")
    return tuple(found)


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        low, dash, high = part.partition("-")
        high = high if dash else low
        if not (DIGITS.match(low) and DIGITS.match(high)) or int(high) < int(low):
            raise ValueError(f"{shown(text)} is not a range of nodes; write n[1-3,7]")
        for number in range(int(low), int(high) + 1):
            yield str(number).zfill(len(low))


def features(text: str) -> tuple[str, ...]:
    """`a100&nvlink`: all of them."""
    if "|" in text:
        raise ValueError("'|' (either of them) is not understood; join with '&': all of them")
    found = tuple(text.split("&"))
    if any(char in text for char in "[]()*,") or not all(found):
        raise ValueError(f"{shown(text)} is not understood; join features with '&': all of them")
    return found


def nodes(text: str) -> int:
    """`2` or `2-2`: an exact number."""
    low, dash, high = text.partition("-")
    if dash and low != high:
        raise ValueError(f"{shown(text)} is a range; a job here has an exact number of nodes")
    return whole(low)
