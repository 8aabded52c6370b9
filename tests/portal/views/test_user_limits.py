"""Limits of each user, on the page of a project that has many of them."""

from __future__ import annotations

import pytest
from django.test import Client

from jobs.bands import Band
from portal.actions.quotas import set_quota
from portal.models import Membership, Project, User
from portal.queries.projects import MOST_USERS, PAGE_SIZE
from tests.portal import cast

USERS = 70


@pytest.fixture
def crowd(project: Project, alice: User, admin: User) -> list[User]:
    """In a project below lab; number n has n jobs waiting, alice one."""
    lab = Project.objects.create(name="lab")
    Project.objects.filter(pk=project.pk).update(parent=lab)
    limits = {"jobs_pending": 100, "walltime_s": 7200}
    for where, band in ((project, None), (lab, Band.BATCH)):
        set_quota(project=where, limits=limits, scope="user", band=band, actor=admin, now=cast.NOW)
    users = User.objects.bulk_create(User(username=f"user-{n}") for n in range(1, USERS + 1))
    Membership.objects.bulk_create(Membership(user=user, project=project) for user in users)
    job = cast.job(alice, project)
    copy = {
        f.attname: getattr(job, f.attname) for f in job._meta.concrete_fields if f.attname != "id"
    }
    type(job).objects.bulk_create(
        type(job)(**copy | {"owner_id": user.pk})
        for number, user in enumerate(users, 1)
        for _ in range(number)
    )
    return users


def test_of_many_users_those_are_told_who_used_most_and_whoever_looks(
    as_alice: Client, alice: User, crowd: list[User]
) -> None:
    answer = as_alice.get("/projects/vision/")
    most = [*(user.pk for user in crowd[: -MOST_USERS - 1 : -1]), alice.pk]
    (above,) = answer.context["limits_above"]
    for limits in (answer.context["limits"], above.limits):
        assert [one.user_id for one in limits if one.user_id] == most
        assert sum(one.others for one in limits) == USERS - MOST_USERS
        assert [one.rule.limited for one in limits].count("walltime") == 1
    for link in (
        "vision/limits/?limit=jobs_pending&amp;band=",
        "lab/limits/?limit=jobs_pending&amp;band=batch",
    ):
        assert f'"/projects/{link}"' in answer.text
    assert answer.text.count(f"and {USERS - MOST_USERS} more users") == 2


def test_of_few_users_all_are_told(as_alice: Client, bob: User, crowd: list[User]) -> None:
    for user in crowd[MOST_USERS - 1 :]:
        user.jobs.all().delete()
    answer = as_alice.get("/projects/vision/")
    assert sum(bool(one.user_id) for one in answer.context["limits"]) == MOST_USERS
    assert "more user" not in answer.text


@pytest.mark.parametrize("name", ["vision", "lab"])
def test_behind_the_link_are_all_of_them_page_by_page(
    as_alice: Client, alice: User, crowd: list[User], name: str
) -> None:
    address = f"/projects/{name}/limits/"
    first, second = (as_alice.get(f"{address}?page={page}") for page in (1, 2))
    found = [limit.user_id for answer in (first, second) for limit in answer.context["page"]]
    assert len(first.context["page"]) == PAGE_SIZE
    # Of two with one job each who was there first is first.
    assert found == [user.pk for user in crowd[:0:-1]] + sorted([alice.pk, crowd[0].pk])
    assert "user-70" in first.text and "user-70" not in second.text


def test_the_link_is_to_one_limit_of_one_band(as_alice: Client, crowd: list[User]) -> None:
    def count(query: str) -> int:
        return as_alice.get(f"/projects/lab/limits/?{query}").context["page"].paginator.count

    assert count("limit=jobs_pending&band=batch") == count("limit=jobs_pending") == USERS + 1
    assert count("limit=jobs_pending&band=") == count("limit=gpus&band=batch") == 0
    assert "Nobody has used any of" in as_alice.get("/projects/lab/limits/?limit=gpus").text
    assert as_alice.get("/projects/nope/limits/").status_code == 404
