"""What a waiting job's page tells of its turn is what the scheduler goes by."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.lifecycle import Reason
from jobs.scheduler.rank import points_of
from portal.models import Node, Project, User
from portal.queries import snapshot, why
from tests.portal import cast
from tests.portal.cast import NOW

DAY = timedelta(days=1)
KEPT_BACK = {"held": True, "reason": Reason.HELD_USER, "eligible_at": None}
PREEMPTED = {"preemptions": 1, "eligible_at": NOW - DAY / 2}


@pytest.mark.parametrize("columns", [KEPT_BACK, PREEMPTED], ids=["held", "preempted"])
def test_its_points_are_those_that_it_is_ranked_by(
    alice: User, project: Project, node: Node, columns: dict[str, object]
) -> None:
    """Submitted long ago, of which most did not count."""
    job = cast.job(
        alice, project, submitted_at=NOW - 6 * DAY, waited_before_s=DAY.total_seconds(), **columns
    )
    present = snapshot.take(NOW)
    (pending,) = present.pending
    told = why.of(job, NOW).priority
    assert told is not None
    assert told.total == points_of(present, NOW)(pending)
    assert 0 < told.parts[1].factor < 0.25
