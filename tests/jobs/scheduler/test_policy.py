"""What a policy may say."""

from __future__ import annotations

import math
from typing import Any

import pytest

from jobs.bands import Band
from jobs.scheduler.policy import MAX_S, Policy


@pytest.mark.parametrize(
    "given",
    [
        {"reservations": 0},
        {"grace_s": -1.0},
        {"grace_s": math.nan},
        {"min_run_s": math.inf},
        {"min_run_s": MAX_S + 1.0},
        {"max_preemptions": -1},
        {"preempts": {Band.BATCH: frozenset({Band.BATCH})}},
        {"preempts": {Band.BATCH: frozenset({Band.PRODUCTION})}},
    ],
)
def test_what_is_no_policy(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Policy(**given)


def test_the_bounds_belong_to_it() -> None:
    bounds = Policy(reservations=1, grace_s=0, min_run_s=MAX_S, max_preemptions=0, preempts={})
    assert bounds.min_run_s == MAX_S
