"""The tree of projects stays a tree, and every change of it says what was before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from jobs.directives import SpecErrors
from jobs.lifecycle import State
from portal.actions import projects, submit
from portal.models import Accounting, Event, Membership, Project, User
from tests.portal import cast
from tests.portal.cast import NOW

Verb = Callable[..., Any]


@pytest.fixture
def do(admin: User) -> Callable[..., Any]:
    def does(verb: Verb, **given: Any) -> Any:
        return verb(actor=admin, now=NOW, **given)

    return does


def last() -> tuple[str, Any]:
    event = Event.objects.latest("pk")
    assert (event.actor.username, event.at) == ("root", NOW)
    return event.kind, event.changes


def refused(verb: Callable[[], object]) -> dict[str, list[str]]:
    before = Event.objects.count(), list(Project.objects.values())
    with pytest.raises(ValidationError) as caught:
        verb()
    assert (Event.objects.count(), list(Project.objects.values())) == before
    return caught.value.message_dict


def test_a_project_is_made_below_another(do: Verb, project: Project) -> None:
    made = do(projects.create, name="robots", parent=project, shares=3)
    made.refresh_from_db()
    assert (made.parent, made.shares) == (project, 3)
    assert last() == (
        "created", {"name": ["", "robots"], "parent": [None, "vision"], "shares": [1, 3]},
    )  # fmt: skip
    assert Event.objects.latest("pk").project == made


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"name": "vision"}, "name", "There is a project vision already."),
        ({"name": "Robots"}, "name", "Use small letters"),
        ({"name": ""}, "name", "cannot be blank"),
        ({"name": "robots", "shares": -1}, "shares", "greater than or equal to 0"),
        ({"name": "robots", "shares": 10**10}, "shares", "less than or equal to 1000000000"),
        ({"name": "robots", "shares": "many"}, "shares", "must be an integer"),
    ],
)
def test_what_is_no_project_is_refused_by_field(
    do: Verb, project: Project, given: dict[str, Any], field: str, message: str
) -> None:
    found = refused(lambda: do(projects.create, **given))
    assert message in found[field][0]


def test_nothing_can_be_below_itself(do: Verb, project: Project) -> None:
    robots = do(projects.create, name="robots", parent=project)
    arms = do(projects.create, name="arms", parent=robots)
    assert refused(lambda: do(projects.move, project=project, parent=arms)) == {
        "parent": ["vision cannot go under arms: arms is below it."]
    }
    assert refused(lambda: do(projects.move, project=arms, parent=arms)) == {
        "parent": ["arms cannot go under arms: it cannot be below itself."]
    }
    assert do(projects.move, project=arms, parent=project)
    assert last() == ("moved", {"parent": ["robots", "vision"]})
    assert do(projects.move, project=robots, parent=arms)
    assert do(projects.move, project=arms, parent=None)
    assert last() == ("moved", {"parent": ["vision", None]})
    assert not do(projects.move, project=arms, parent=None)
    assert Project.objects.get(pk=arms.pk).parent is None


def test_the_tree_has_no_more_levels_than_it_may(do: Verb, project: Project) -> None:
    """Counted with all that moves along."""
    last = project
    for level in range(2, 50):
        last = Project.objects.create(name=f"level-{level}", parent=last)
    robots = do(projects.create, name="robots")
    arms = do(projects.create, name="arms", parent=robots)
    too_deep = {"parent": ["Below level-49 it would make 51 levels of projects; 50 are the most."]}
    assert refused(lambda: do(projects.move, project=robots, parent=last)) == too_deep
    assert do(projects.move, project=robots, parent=last.parent)
    assert refused(lambda: do(projects.create, name="legs", parent=arms)) == {
        "parent": ["Below arms it would make 51 levels of projects; 50 are the most."]
    }
    assert do(projects.create, name="legs", parent=robots)


def test_who_is_deeper_already_can_be_changed_where_they_are(do: Verb, project: Project) -> None:
    last = project
    for level in range(2, 53):
        last = Project.objects.create(name=f"level-{level}", parent=last)
    assert not do(projects.move, project=last, parent=last.parent)
    assert do(projects.move, project=last, parent=project)


def test_settings_are_told_with_what_was_before(do: Verb, project: Project) -> None:
    assert do(projects.rename, project=project, name="sight")
    assert last() == ("renamed", {"name": ["vision", "sight"]})
    assert do(projects.set_shares, project=project, shares=7)
    assert last() == ("shares set", {"shares": [1, 7]})
    assert do(projects.set_lending, project=project, lends=True)
    assert last() == ("lending set", {"lends": [False, True]})
    assert do(projects.describe, project=project, title="Sight", description="Eyes")
    assert last() == (
        "described",
        {"title": ["Computer vision", "Sight"], "description": ["", "Eyes"]},
    )
    project.refresh_from_db()
    assert (project.name, project.shares, project.lends) == ("sight", 7, True)
    count = Event.objects.count()
    assert not do(projects.set_shares, project=project, shares=7)
    assert Event.objects.count() == count


def test_a_change_keeps_what_another_changed_meanwhile(do: Verb, project: Project) -> None:
    stale = Project.objects.get(pk=project.pk)
    do(projects.set_shares, project=project, shares=7)
    do(projects.rename, project=stale, name="sight")
    project.refresh_from_db()
    assert (project.name, project.shares) == ("sight", 7)


def test_lending_at_the_top(do: Verb) -> None:
    assert not do(projects.set_lending_at_the_top, lends=False)
    assert do(projects.set_lending_at_the_top, lends=True)
    assert last() == ("lending set", {"lends": [False, True]})
    assert Accounting.current().lends


def test_members_come_change_and_go(do: Verb, project: Project, carol: User) -> None:
    member = {"project": project, "user": carol}
    assert do(projects.set_member, **member)
    assert last() == ("member added", {"carol": [None, {"shares": 1, "lead": False}]})
    assert not do(projects.set_member, **member)
    assert do(projects.set_member, **member, shares=4, lead=True)
    assert last() == (
        "member changed",
        {"carol": [{"shares": 1, "lead": False}, {"shares": 4, "lead": True}]},
    )
    with pytest.raises(ValidationError) as caught:
        do(projects.set_member, **member, shares=-1)
    assert list(caught.value.message_dict) == ["shares"]
    assert do(projects.remove_member, **member)
    assert last() == ("member removed", {"carol": [{"shares": 4, "lead": True}, None]})
    assert not do(projects.remove_member, **member)
    assert not Membership.objects.filter(user=carol).exists()


def test_an_archived_project_takes_in_no_jobs(do: Verb, project: Project, alice: User) -> None:
    robots = do(projects.create, name="robots", parent=project)
    do(projects.set_member, project=robots, user=alice)
    assert do(projects.archive, project=robots)
    assert last() == ("archived", {"archived_at": [None, NOW.isoformat()]})
    assert not do(projects.archive, project=robots)
    with pytest.raises(SpecErrors, match="'robots' is not a project of yours; there is vision"):
        submit.read(
            owner=alice, script="#!/bin/bash\n", overrides={"project": "robots"}, now=timezone.now()
        )
    assert refused(lambda: do(projects.create, name="arms", parent=robots)) == {
        "parent": ["robots is archived; restore it first."]
    }
    assert do(projects.archive, project=project)
    assert refused(lambda: do(projects.restore, project=robots)) == {
        "archived": ["Restore vision first, which is above it."]
    }
    assert do(projects.restore, project=project)
    assert do(projects.restore, project=robots)
    assert last() == ("restored", {"archived_at": [NOW.isoformat(), None]})


def test_of_many_projects_some_are_named(do: Verb, admin: User) -> None:
    for number in range(20):
        do(projects.create, name=f"p{number:02}")
    first = ", ".join(f"p{number:02}" for number in range(9))
    with pytest.raises(SpecErrors, match=f"not a project of yours; there is {first} and 11 more"):
        submit.read(
            owner=admin, script="#!/bin/bash\n", overrides={"project": "x"}, now=timezone.now()
        )


def test_a_project_with_work_is_not_archived(do: Verb, project: Project, alice: User) -> None:
    job = cast.job(alice, project)
    cast.job(alice, project, state=State.COMPLETED)
    assert refused(lambda: do(projects.archive, project=project)) == {
        "archived": ["1 job of it is not finished; wait for it, or cancel it."]
    }
    job.delete()
    do(projects.create, name="robots", parent=project)
    assert refused(lambda: do(projects.archive, project=project)) == {
        "archived": ["Archive what is below it first: robots."]
    }
    for number in range(20):
        do(projects.create, name=f"robot-{number:02}", parent=project)
    assert refused(lambda: do(projects.archive, project=project)) == {
        "archived": ["Archive what is below it first: robot-00, robot-01, robot-02, robot-03 and "
                     "17 more."]
    }  # fmt: skip
