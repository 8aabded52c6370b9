"""Many who submit at once where only so many jobs may wait."""

from __future__ import annotations

from jobs.directives import SpecErrors
from portal.actions import submit
from portal.models import Job, Project, Quota
from tests.portal import cast
from tests.portal.cast import NOW
from tests.portal.together import at_once


def test_together_they_get_no_more_than_there_is(transactional_db: None) -> None:
    # Different projects and people, and one limit above them.
    group = Project.objects.create(name="group")
    Quota.objects.create(project=group, jobs_pending=3)
    cast.node("gpu-1")
    owners = [
        cast.person(f"p{number}", Project.objects.create(name=f"p{number}", parent=group))
        for number in range(4)
    ]
    asked = {
        owner: submit.read(owner=owner, script="#!/bin/sh\n:\n", overrides={}, now=NOW)
        for owner in owners
    }
    refusals: list[SpecErrors] = []

    def twice(number: int) -> None:
        request = asked[owners[number]]
        for _ in range(2):
            try:
                submit.submit(
                    owner=owners[number], spec=request.spec, project=request.project,
                    partition=request.partition, now=NOW,
                )  # fmt: skip
            except SpecErrors as refused:
                refusals.append(refused)

    at_once(*[lambda number=number: twice(number) for number in range(4)])
    assert (Job.objects.count(), len(refusals)) == (3, 5)
