"""An array's buttons: to whom they are shown, and what each does."""

from __future__ import annotations

import pytest
from django.test import Client

from jobs.lifecycle import State
from portal.models import Job, Node, Project, User
from tests.portal import cast

VERBS = ("cancel", "hold", "release")


@pytest.fixture
def head(alice: User, project: Project, node: Node) -> Job:
    """Of an array of which one task has ended, one runs and three wait, one of them held."""
    states = (State.COMPLETED, State.RUNNING, State.PENDING, State.PENDING, State.PENDING)
    tasks = cast.array(alice, project, *states)
    cast.run(tasks[1], node, 0)
    Job.objects.filter(pk=tasks[4].pk).update(held=True)
    return tasks[0]


def opened(client: Client, head: Job, query: str = "&state=all") -> str:
    return client.get(f"/queue/?array={head.pk}{query}").text


def shown(page: str) -> list[str]:
    """The verbs whose buttons are on the page."""
    return [verb for verb in VERBS if f'id="{verb}-array"' in page]


def ask(client: Client, head: Job, verb: str) -> str:
    """Press the button; the page that one is led to."""
    response = client.post(f"/arrays/{head.pk}/{verb}/", follow=True)
    assert response.redirect_chain == [(f"/queue/?array={head.pk}&state=all", 302)]
    return response.text


def states(head: Job) -> list[str]:
    found = Job.objects.filter(array_id=head.pk).order_by("pk")
    return list(found.values_list("state", flat=True))


def test_its_owner_and_administrators_have_the_buttons(
    as_alice: Client, as_admin: Client, as_bob: Client, head: Job
) -> None:
    assert shown(opened(as_alice, head)) == list(VERBS)
    assert shown(opened(as_admin, head)) == list(VERBS)
    assert shown(opened(as_bob, head)) == []


def test_the_buttons_are_those_that_would_do_something(
    as_alice: Client, alice: User, project: Project, head: Job
) -> None:
    waiting = Job.objects.filter(array_id=head.pk, state=State.PENDING)
    waiting.update(held=False)
    assert shown(opened(as_alice, head)) == ["cancel", "hold"]
    waiting.update(held=True)
    assert shown(opened(as_alice, head)) == ["cancel", "release"]
    waiting.update(state=State.RUNNING, held=True)
    assert shown(opened(as_alice, head)) == ["cancel"]
    Job.objects.filter(array_id=head.pk).update(cancelled_at=cast.NOW)
    assert shown(opened(as_alice, head)) == []
    # Neither here, where no array is shown as such.
    assert shown(as_alice.get("/queue/?state=all").text) == []


def test_cancel_asks_first_and_counts_what_ends(as_alice: Client, head: Job) -> None:
    before = states(head)
    page = as_alice.get(f"/arrays/{head.pk}/cancel/").text
    assert "3 pending</span>" in page
    assert "1 running</span>" in page
    assert "1 completed" not in page
    assert "Cancel 4 tasks</button>" in page
    assert "<script>" not in page
    assert states(head) == before


def test_cancel_tells_of_signals_only_where_something_runs(
    as_alice: Client, alice: User, project: Project, head: Job
) -> None:
    def words(array: Job) -> tuple[bool, bool]:
        page = as_alice.get(f"/arrays/{array.pk}/cancel/").text
        return "What has not started yet never will." in page, "get a signal" in page

    assert words(head) == (True, True)
    assert words(cast.array(alice, project, State.PENDING, State.COMPLETED)[0]) == (True, False)
    assert words(cast.array(alice, project, State.CONFIGURING)[0]) == (False, True)


def test_cancel(as_alice: Client, alice: User, head: Job, project: Project) -> None:
    other = cast.job(alice, project)
    page = ask(as_alice, head, "cancel")
    assert "cancelled 3 tasks that waited and ending 1 task with a signal" in page
    assert states(head) == [State.COMPLETED, State.COMPLETING, *[State.CANCELLED] * 3]
    other.refresh_from_db()
    assert other.state == State.PENDING
    assert shown(page) == []
    assert "has ended or ends already" in as_alice.get(f"/arrays/{head.pk}/cancel/").text
    assert "There was nothing to cancel" in ask(as_alice, head, "cancel")


def test_the_message_names_only_what_there_was(as_alice: Client, head: Job) -> None:
    Job.objects.filter(array_id=head.pk, state=State.RUNNING).update(cancelled_at=cast.NOW)
    assert f"Array {head.pk}: cancelled 3 tasks that waited.<" in ask(as_alice, head, "cancel")


def test_hold_and_release(as_alice: Client, head: Job) -> None:
    held = Job.objects.filter(array_id=head.pk, held=True)
    page = ask(as_alice, head, "hold")
    assert "held 2 waiting tasks." in page
    assert held.count() == 3
    assert shown(page) == ["cancel", "release"]
    assert "has no task to hold" in ask(as_alice, head, "hold")
    page = ask(as_alice, head, "release")
    assert "released 3 held tasks" in page
    assert held.count() == 0
    assert shown(page) == ["cancel", "hold"]
    assert "has no held task that" in ask(as_alice, head, "release")


@pytest.mark.parametrize("verb", VERBS)
def test_another_person_may_not(as_bob: Client, head: Job, verb: str) -> None:
    before = states(head)
    assert as_bob.post(f"/arrays/{head.pk}/{verb}/").status_code == 403
    assert states(head) == before
    assert Job.objects.filter(held=True).count() == 1


def test_another_person_is_not_even_asked(as_bob: Client, head: Job) -> None:
    assert as_bob.get(f"/arrays/{head.pk}/cancel/").status_code == 403


@pytest.mark.parametrize("verb", VERBS)
def test_an_administrator_may(as_admin: Client, head: Job, verb: str) -> None:
    assert f"Array {head.pk}: " in ask(as_admin, head, verb)


@pytest.mark.parametrize("verb", VERBS)
def test_a_stranger_is_asked_to_sign_in(client: Client, head: Job, verb: str) -> None:
    response = client.post(f"/arrays/{head.pk}/{verb}/")
    assert response["Location"].startswith("/sign-in/")
    assert State.CANCELLED not in states(head)


def test_release_only_by_post(as_alice: Client, head: Job) -> None:
    assert as_alice.get(f"/arrays/{head.pk}/release/").status_code == 405


def test_of_what_an_administrator_holds_its_owner_releases_nothing(
    as_alice: Client, as_admin: Client, head: Job
) -> None:
    assert "Hold array" in as_admin.get(f"/arrays/{head.pk}/hold/").text
    assert "held 3 waiting tasks." in ask(as_admin, head, "hold")
    held = Job.objects.filter(array_id=head.pk, held_by_admin=True)
    assert held.count() == 3
    page = ask(as_alice, head, "release")
    assert "no held task that you may release" in page
    assert shown(page) == ["cancel", "hold"]
    assert shown(opened(as_admin, head)) == ["cancel", "release"]
    Job.objects.filter(pk=held.latest("pk").pk).update(held_by_admin=False)
    assert "released 1 held task" in ask(as_alice, head, "release")
    assert "released 2 held tasks" in ask(as_admin, head, "release")


def test_whose_hold_is_left_is_told(as_alice: Client, as_admin: Client, head: Job) -> None:
    ask(as_alice, head, "hold")
    last = Job.objects.filter(array_id=head.pk, state=State.PENDING).latest("pk")
    Job.objects.filter(pk=last.pk).update(held=False, held_by_owner=False)
    ask(as_admin, head, "hold")
    page = ask(as_admin, head, "release")
    assert "released 1 held task to wait for a turn again. 2 tasks left held by their owner" in page
    ask(as_admin, head, "hold")
    page = ask(as_alice, head, "release")
    assert f"Array {head.pk}: 2 tasks left held by an administrator." in page
    assert shown(page) == ["cancel", "hold"]


@pytest.mark.parametrize("verb", VERBS)
def test_no_array_to_act_on(as_alice: Client, head: Job, verb: str) -> None:
    for number in (head.pk + 1, 10**30):
        assert as_alice.post(f"/arrays/{number}/{verb}/").status_code == 404


@pytest.mark.parametrize("verb", VERBS)
def test_without_the_forms_token_nothing_happens(alice: User, head: Job, verb: str) -> None:
    before = states(head)
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    assert client.post(f"/arrays/{head.pk}/{verb}/").status_code == 403
    assert states(head) == before
    assert Job.objects.filter(held=True).count() == 1


def test_a_name_is_text(as_alice: Client, head: Job) -> None:
    evil = "\"><script>alert('x')</script>"
    Job.objects.filter(array_id=head.pk).update(name=evil)
    page = as_alice.get(f"/arrays/{head.pk}/cancel/").text
    assert "&lt;script&gt;alert" in page
    assert "<script>alert" not in page


def test_a_task_is_cancelled_alone_and_leads_to_its_array(as_alice: Client, head: Job) -> None:
    task = Job.objects.filter(array_id=head.pk, state=State.PENDING)[0]
    link = f'<a href="/queue/?array={head.pk}&amp;state=all">Array {head.pk}</a>'
    assert link in as_alice.get(f"/jobs/{task.pk}/").text
    assert link in as_alice.get(f"/jobs/{task.pk}/cancel/").text
    as_alice.post(f"/jobs/{task.pk}/cancel/")
    assert states(head).count(State.CANCELLED) == 1


def test_the_tabs_count_the_arrays_tasks(
    as_alice: Client, as_bob: Client, alice: User, bob: User, project: Project, head: Job
) -> None:
    cast.array(alice, project, State.RUNNING, State.PENDING)
    cast.job(bob, project)

    def counts(client: Client, query: str) -> tuple[int, ...]:
        found = client.get(f"/queue/{query}").context["counts"]
        return tuple(found[name] for name in ("open", "mine", "active", "waiting"))

    assert counts(as_alice, "") == (7, 6, 2, 5)
    assert counts(as_alice, f"?array={head.pk}") == (4, 4, 1, 3)
    assert counts(as_bob, f"?array={head.pk}&state=ended") == (4, 0, 1, 3)
    assert counts(as_alice, "?array=999999") == (0, 0, 0, 0)


def test_a_task_is_found_by_its_label(as_alice: Client, head: Job) -> None:
    third = Job.objects.get(array_id=head.pk, array_index=2)
    assert as_alice.get(f"/jobs/{head.pk}_2/")["Location"] == f"/jobs/{third.pk}/"


@pytest.mark.parametrize("label", ["{}_99", "4711_0", "{}_99999999999999999999999"])
def test_no_such_task(as_alice: Client, head: Job, label: str) -> None:
    assert as_alice.get(f"/jobs/{label.format(head.pk)}/").status_code == 404
