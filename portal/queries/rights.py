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


def may_relaunch(user: User | AnonymousUser, job: Job) -> bool:
    """Submit this job's settings again, in its own project."""
    return may_act_on_job(user, job) and may_submit_to(user, job.project)


def may_submit_to(user: User | AnonymousUser, project: Project) -> bool:
    """Have jobs accounted to this project."""
    if not user.is_active:
        return False
    return user.is_staff or project.memberships.filter(user_id=user.pk).exists()


def may_manage_nodes(user: User | AnonymousUser) -> bool:
    """Add, probe, drain, resume and remove nodes, and take the practice lab away."""
    return user.is_active and user.is_staff


def may_administer(user: User | AnonymousUser) -> bool:
    """Make people, projects and partitions."""
    return user.is_active and user.is_staff


def projects_of(user: User) -> QuerySet[Project]:
    """The projects this person may submit to, by name."""
    if user.is_staff:
        return Project.objects.all()
    return Project.objects.filter(members=user)
