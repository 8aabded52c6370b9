"""Many who submit at once where only so many jobs may wait."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.core.exceptions import ValidationError

from jobs.directives import SpecErrors
from jobs.lifecycle import State
from portal.actions import projects, submit
from portal.models import Job, Membership, Node, Project, Quota, User
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


def test_what_was_read_is_asked_again_when_it_is_written_down(
    node: Node, alice: User, project: Project
) -> None:
    request = submit.read(owner=alice, script="#!/bin/sh\n:\n", overrides={}, now=NOW)

    def send(key: str | None = None) -> Job:
        return submit.submit(
            owner=alice, spec=request.spec, project=request.project,
            partition=request.partition, now=NOW, key=key,
        )  # fmt: skip

    first = send("one")
    Job.objects.update(state=State.CANCELLED)
    projects.archive(project=Project.objects.get(), actor=None, now=NOW)
    with pytest.raises(SpecErrors, match="was archived and takes no more jobs"):
        send()
    projects.restore(project=Project.objects.get(), actor=None, now=NOW)
    Membership.objects.all().delete()
    with pytest.raises(SpecErrors, match="is no longer a project of yours"):
        send()
    assert send("one") == first
    assert Job.objects.count() == 1


def test_a_project_is_archived_before_or_after_a_job_comes(
    transactional_db: None, node: Node, alice: User, project: Project
) -> None:
    """Never with a job in it that is not finished."""
    request = submit.read(owner=alice, script="#!/bin/sh\n:\n", overrides={}, now=NOW)
    for _ in range(10):

        def send() -> None:
            with suppress(SpecErrors):
                submit.submit(
                    owner=alice, spec=request.spec, project=request.project,
                    partition=request.partition, now=NOW,
                )  # fmt: skip

        def archive() -> None:
            with suppress(ValidationError):
                projects.archive(project=Project.objects.get(), actor=None, now=NOW)

        at_once(send, archive)
        archived = Project.objects.filter(archived_at__isnull=False).exists()
        assert archived != Job.objects.exists()
        Job.objects.all().delete()
        Project.objects.update(archived_at=None)
