"""Who may do what: one function a rule, asked by views, actions and templates alike.

Any signed-in person sees everything; administrators (`is_staff`) may do everything.
"""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet

from portal.models import Job, Project, User


def may_act_on_job(user: User | AnonymousUser, job: Job) -> bool:
    """Cancel, hold, release or change this job."""
    return user.is_active and (user.is_staff or job.owner_id == user.pk)


def holds_for_others(user: User | AnonymousUser, job: Job) -> bool:
    """Whether who holds it does so as an administrator, and its owner is to be told why."""
    return may_administer(user) and job.owner_id != user.pk


def may_hold(user: User | AnonymousUser, job: Job) -> bool:
    """Keep it from starting, which they do not do yet; its owner also what an administrator holds
    until then."""
    if not job.waiting or not may_act_on_job(user, job):
        return False
    if holds_for_others(user, job):
        return not job.held_by_admin
    return not job.held or (job.held_by_admin and not job.held_by_owner)


def may_release(user: User | AnonymousUser, job: Job) -> bool:
    """Take back a hold; what an administrator holds only administrators do."""
    if not job.waiting or not job.held or not may_act_on_job(user, job):
        return False
    return user.is_staff or job.held_by_owner or not job.held_by_admin


def may_manage_nodes(user: User | AnonymousUser) -> bool:
    """Add, probe, drain, resume, declare off and remove nodes, and take the practice lab away."""
    return user.is_active and user.is_staff


def may_administer(user: User | AnonymousUser) -> bool:
    """Make people, projects and partitions."""
    return user.is_active and user.is_staff


def projects_of(user: User) -> QuerySet[Project]:
    """The projects this person may submit to, by name."""
    open_ = Project.objects.filter(archived_at=None)
    return open_ if user.is_staff else open_.filter(members=user)
