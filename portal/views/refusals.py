"""Refusals that several pages share, in the same words."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied

from portal.models import Job
from portal.queries import rights
from portal.views.requests import PageRequest


def refuse_strangers(request: PageRequest, job: Job, *, called: str, verb: str = "change") -> None:
    """Raise PermissionDenied unless the visitor may act on this job, or on the array it is of.

    `called` is what the page calls it at the beginning of a sentence.
    """
    if not rights.may_act_on_job(request.user, job):
        raise PermissionDenied(
            f"{called} belongs to {job.owner}; only they and administrators {verb} it."
        )
