"""Specifications of waiting jobs, read once by each process: to read them is most of the work."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from jobs.rules import SpecError
from jobs.spec import JobSpec
from jobs.spec_json import from_dict

_log = logging.getLogger(__name__)
_kept: dict[str, JobSpec | SpecError] = {}
"""Of those asked for last. By their text, so that whatever another process or database does to the
rows, none is taken for another."""


def stored(spec: Mapping[str, Any]) -> JobSpec:
    """What a row has, with an empty script in place of its own.

    Raises `SpecError`, or `TypeError` or `ValueError` for what Carrel cannot have stored.
    """
    return from_dict({**spec, "script": ":"})


def read(texts: Iterable[str]) -> list[JobSpec | SpecError]:
    """Stored specifications, all with an empty script in place of theirs, in the same order.

    What cannot be read comes as what is wrong with it: one row must not stop all the others.
    """
    global _kept
    # A web process asks from several threads: each works with the dictionary it has found.
    before, now = _kept, dict[str, JobSpec | SpecError]()
    found = [now.get(text) or now.setdefault(text, _spec(text, before)) for text in texts]
    _kept = now
    return found


def _spec(text: str, before: dict[str, JobSpec | SpecError]) -> JobSpec | SpecError:
    return before.get(text) or _parsed(text)


def _parsed(text: str) -> JobSpec | SpecError:
    try:
        return stored(json.loads(text))
    except SpecError as problem:
        found = problem
    except (TypeError, ValueError) as problem:
        found = SpecError("specification", f"is not one that Carrel stored: {problem}")
    # Once: from now on it is among those that are kept.
    _log.error("a job's stored request cannot be read: %s", found)
    return found
