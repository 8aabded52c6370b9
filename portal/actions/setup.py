"""What an empty installation needs before anybody can do anything."""

from __future__ import annotations

import getpass
import re

from portal.models import Membership, Project, User


def first_admin() -> User:
    """The longest-standing administrator; made, without a password, when there is none."""
    found = User.objects.filter(is_staff=True, is_active=True).order_by("pk").first()
    if found:
        return found
    name = re.sub(r"[^A-Za-z0-9@.+_-]", "", _account()) or "admin"
    admin = User(username=name, is_staff=True, is_superuser=True)
    admin.set_unusable_password()
    admin.save()
    return admin


def first_project(member: User) -> Project:
    """A project to submit to; made when there is none."""
    project = Project.objects.order_by("pk").first()
    if project is None:
        project = Project.objects.create(name="lab", title="The whole lab")
    Membership.objects.get_or_create(user=member, project=project)
    return project


def _account() -> str:
    """The name of who started Carrel."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "admin"
