"""The cast as fixtures, for tests of the portal."""

from __future__ import annotations

import pytest
from django.test import Client

from portal import broker
from portal.models import Node, Project, User
from portal.queries import checkpoints, history
from tests.portal import cast


@pytest.fixture(autouse=True)
def remembers_no_runs() -> None:
    """What this process has read of another test's jobs foretells nothing in this one."""
    history.forget()
    checkpoints.forget()


@pytest.fixture(autouse=True)
def keeps_no_answers() -> None:
    """Nor is it told what was found out for another test's."""
    for name in broker.connection().scan_iter("carrel:sooner*"):
        broker.connection().delete(name)


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="vision", title="Computer vision")


@pytest.fixture
def alice(project: Project) -> User:
    """A researcher."""
    return cast.person("alice", project)


@pytest.fixture
def bob(project: Project) -> User:
    """Another one of the same project."""
    return cast.person("bob", project)


@pytest.fixture
def carol(db: None) -> User:
    """A stranger: of no project."""
    return cast.person("carol")


@pytest.fixture
def admin(db: None) -> User:
    return cast.person("root", staff=True)


@pytest.fixture
def node(db: None) -> Node:
    """A node that is up, with four GPUs."""
    return cast.node("gpu-1")


def _signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def as_alice(alice: User) -> Client:
    return _signed_in(alice)


@pytest.fixture
def as_bob(bob: User) -> Client:
    return _signed_in(bob)


@pytest.fixture
def as_carol(carol: User) -> Client:
    return _signed_in(carol)


@pytest.fixture
def as_admin(admin: User) -> Client:
    return _signed_in(admin)
