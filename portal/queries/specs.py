"""Specifications of waiting jobs, read once by each process: to read them is most of the work."""

from __future__ import annotations

import json
from collections.abc import Iterable

from jobs.spec import JobSpec
from jobs.spec_json import from_dict

_kept: dict[str, JobSpec] = {}
"""Of those asked for last. By their text, so that whatever another process or database does to the
rows, none is taken for another."""


def read(texts: Iterable[str]) -> list[JobSpec]:
    """Stored specifications, all with an empty script in place of theirs, in the same order."""
    global _kept
    # A web process asks from several threads: each works with the dictionary it has found.
    before, now = _kept, dict[str, JobSpec]()
    found = [now.get(text) or now.setdefault(text, _spec(text, before)) for text in texts]
    _kept = now
    return found


def _spec(text: str, before: dict[str, JobSpec]) -> JobSpec:
    return before.get(text) or from_dict(json.loads(text) | {"script": ":"})
