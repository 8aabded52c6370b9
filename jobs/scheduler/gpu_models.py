"""Which GPU models are meant by the words that people write.

A MIG instance's model is its card's and its profile's name: `NVIDIA A100-SXM4-80GB MIG 1g.10gb`
(`jobs.nodes.probe` puts it together).
"""

from __future__ import annotations

import re
from functools import lru_cache

_SEPARATORS = re.compile(r"[^a-z0-9]+")
_SLICE = re.compile(r"(?<![a-z0-9])\d+[cg](?![a-z])")


@lru_cache(maxsize=4096)
def is_model(asked: str, model: str) -> bool:
    """Whether a GPU of this model is what was asked for.

    `a100` is an `NVIDIA A100-SXM4-80GB`, and so is `a100-80gb`; `a10` is not. `rtx4090` is a
    `GeForce RTX 4090`: words may be written together. A MIG instance must be named as one:
    `1g.10gb`, `a100-1g.10gb` or `mig` is an `NVIDIA A100-SXM4-80GB MIG 1g.10gb`; `a100` is not.
    """
    return is_of(asked, model) and (not is_instance(model) or names_instance(asked, model))


@lru_cache(maxsize=4096)
def is_of(asked: str, model: str) -> bool:
    """Whether the words fit, be it a whole GPU or an instance."""
    words = _words(model)
    wanted = _words(asked)
    if wanted and set(wanted) <= set(words):
        return True
    joined = "".join(wanted)
    return any(
        joined == "".join(words[start:end])
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
    )


def is_instance(model: str) -> bool:
    """Whether this is a part of a GPU, with memory and processors of its own, and no whole one."""
    return bool(_slices(model))


@lru_cache(maxsize=4096)
def _slices(model: str) -> frozenset[str]:
    """What a MIG instance is called by: `1g` of 1g.10gb, `1c` and `3g` of 1c.3g.40gb.

    Empty for a whole GPU.
    """
    profile = model.casefold().partition(" mig ")[2]
    return frozenset(_SLICE.findall(profile))


@lru_cache(maxsize=4096)
def names_instance(asked: str, model: str) -> bool:
    """Whether the words tell that not the whole card is wanted, but an instance such as this."""
    named = frozenset(_SLICE.findall(asked.casefold()))
    return named == _slices(model) or (not named and "mig" in _words(asked))


def _words(text: str) -> list[str]:
    return [word for word in _SEPARATORS.split(text.casefold()) if word]
