"""The live check of the submit page: what is wrong as typed, and what would become of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.lifecycle import State
from portal import broker
from portal.models import Job, Node, Partition, Project, User
from portal.queries import room
from tests.portal import cast

SCRIPT = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --gres=gpu:2\necho hello\n"
pytestmark = pytest.mark.usefixtures("node")


def check(client: Client) -> str:
    return client.post("/jobs/check/", {"script": SCRIPT}).text


def link(job: Job) -> str:
    return f'<a href="/jobs/{job.pk}/">{job.pk}</a>'


def test_the_check_sums_up(as_alice: Client):
    page = as_alice.post("/jobs/check/", {"script": SCRIPT, "walltime": "4:00:00"}).text
    assert "1 node with 2 GPUs, 1 CPU, 4 h" in page
    assert "Submitted now, it would start at once on gpu-1." in page
    assert "It fits on 1 node; 4 of 4 such GPUs are free." in page
    assert not Job.objects.exists()


def test_the_check_says_when_it_will_wait(
    as_alice: Client, alice: User, project: Project, node: Node
):
    running = cast.job(alice, project, state=State.RUNNING, started_at=timezone.now())
    cast.run(running, node, 0, 1, 2)
    page = check(as_alice)
    assert "Submitted now, it would wait. Needs 2 GPUs on one node; 1 is free (on gpu-1)." in page
    assert f"Job {link(running)} makes room for it on gpu-1 by " in page
    assert " at the latest." in page
    assert "It fits on 1 node; 1 of 4 such GPUs are free." in page


def test_the_check_counts_who_is_ahead(
    as_alice: Client, alice: User, bob: User, project: Project, node: Node
):
    for _ in range(2):
        cast.job(bob, project, gpus=4)
    first = Job.objects.order_by("pk")[0]
    cast.run(cast.job(alice, project, state=State.RUNNING, started_at=timezone.now()), node, 0)
    page = check(as_alice)
    assert "it would wait. What it needs is free (on gpu-1), but kept for job " in page
    assert f"kept for job {link(first)}, which starts by " in page
    assert "2 jobs are ahead of it." in page
    assert "3 of 4 such GPUs are free." in page


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"array": "1-2"}, "all 2 jobs would start at once."),
        ({"array": "1-3"}, "2 of its 3 jobs would start at once and the 1 other later."),
        ({"array": "1-9%1"}, "1 of its 9 jobs would start at once and the 8 others later."),
        ({"held": "on"}, "it would wait. Held: it does not start before somebody releases it."),
        ({"begin": "now+2hours"}, "it would wait. Asked to start no earlier than"),
    ],
)
def test_the_check_knows_arrays_and_own_waits(
    as_alice: Client, fields: dict[str, str], expected: str
):
    page = as_alice.post("/jobs/check/", {"script": SCRIPT, **fields}).text
    assert f"Submitted now, {expected}" in page


def test_the_check_marks_lines(as_alice: Client):
    response = as_alice.post("/jobs/check/", {"script": "#!/bin/bash\n\n#SBATCH --tyme=5\n"})
    marks = response.context["marks"]
    assert [(mark["line"], mark["severity"]) for mark in marks] == [(3, "error")]
    assert json.dumps(marks).replace('"', "&quot;").replace("'", "&#x27;") in response.text


LATE = {
    "--account=foo": "&#x27;foo&#x27; is not a project of yours; there is vision",
    "-p foo": "there is no partition &#x27;foo&#x27;; there is gpu",
    "--dependency=afterok:4711": "there is no job 4711",
    "--time=3:00:00": "partition gpu allows 1 h at most",
    "-q production": "partition gpu allows batch and best-effort only",
    "--nice=-1": "below 0 is for administrators; leave it out, or give 0 or more",
}


@pytest.mark.parametrize("directive", LATE)
def test_what_only_the_lab_can_judge_is_told_at_its_line_too(as_alice: Client, directive: str):
    Partition.objects.update(max_walltime_s=3600, allowed_bands=["batch", "best-effort"])
    sent = {"script": f"#!/bin/bash\n\n#SBATCH {directive}\n"}
    response = as_alice.post("/jobs/check/", sent)
    name = re.split("[ =]", directive)[0]
    assert f"Line 3</a>: <code>{name}</code> {LATE[directive]}</li>" in response.text
    assert [mark["line"] for mark in response.context["marks"] if mark["severity"] == "error"] == [
        3
    ]
    refused = as_alice.post("/jobs/new/", sent)
    assert f"Line 3: <code>{name}</code> {LATE[directive]}</span>" in refused.text
    assert not refused.context["form"].errors


@pytest.mark.parametrize(("who", "nice"), [("as_alice", 5), ("as_admin", -5)])
def test_anybody_steps_back_and_an_administrator_forward(
    request: pytest.FixtureRequest, project: Project, who: str, nice: int
):
    client: Client = request.getfixturevalue(who)
    sent = {"script": f"#!/bin/bash\n#SBATCH --nice={nice} -A {project.name}\n"}
    assert client.post("/jobs/new/", sent).status_code == 302
    assert Job.objects.get().spec["nice"] == nice


@pytest.mark.parametrize(
    ("kind", "state", "met"),
    [
        ("afterok", State.FAILED, False),
        ("afterok", State.COMPLETED, True),
        ("afternotok", State.COMPLETED, False),
        ("afterany", State.FAILED, True),
        ("afterok", State.RUNNING, True),
    ],
)
def test_a_dependency_that_can_never_come_true_is_refused(
    as_alice: Client, alice: User, project: Project, kind: str, state: State, met: bool
):
    other = cast.job(alice, project, state=state)
    wait = f"{kind}:{other.pk}"
    page = as_alice.post("/jobs/check/", {"script": SCRIPT, "dependency": wait}).text
    refusal = f"{wait} can never come true: job {other.pk} ended otherwise"
    assert (refusal in page, "Submitted now" in page) == (not met, met)


def test_the_check_says_what_the_form_overrules(as_alice: Client):
    page = as_alice.post("/jobs/check/", {"script": SCRIPT, "gpus_per_node": "1"}).text
    assert (
        "GPUs per node: the form&#x27;s word is taken" in page
        or "GPUs per node: the form's" in page
    )


def test_the_check_says_what_the_script_says_of_each_field(as_alice: Client):
    script = "#!/bin/sh\n#SBATCH -q production --switches=2 --gres=shard:2 -N2\n"
    said = as_alice.post("/jobs/check/", {"script": script}).context["said"]
    assert said == {"band": "production", "nodes": "2", "max_switches": "2", "shards": "2"}


def test_the_check_only_takes_posts(as_alice: Client):
    assert as_alice.get("/jobs/check/").status_code == 405


def test_an_empty_request_is_checked_too(as_alice: Client):
    assert "give a script or a command" in as_alice.post("/jobs/check/", {}).text


def queries(client: Client) -> int:
    with CaptureQueriesContext(connection) as seen:
        client.post("/jobs/check/", {"script": SCRIPT})
    return len(seen)


def test_queries_of_the_check_do_not_grow(as_alice: Client, alice: User, project: Project):
    cast.job(alice, project)
    queries(as_alice)  # The first one reads what ended before.
    before = queries(as_alice)
    for number in range(5):
        cast.node(f"more-{number}")
        cast.job(alice, project)
    assert queries(as_alice) == before


ASKS_AGAIN = "outlook-pending"


def is_told(response: HttpResponse) -> tuple[bool, bool]:
    """Whether it says what would become of the request, and whether the page is to ask again."""
    page = response.text
    told = "Submitted now, it would start at once on gpu-1." in page
    assert ("still being worked out" in page) == (not told)
    assert "1 node with 2 GPUs" in page
    return told, ASKS_AGAIN in response.headers.get("HX-Trigger", "")


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Client], list[HttpResponse]]:
    """While the next outlook is worked out, this client checks: what it got."""

    def slow_down(client: Client) -> list[HttpResponse]:
        answers: list[HttpResponse] = []
        outlook = room.outlook

        def slowly(**about: Any) -> room.Outlook:
            monkeypatch.setattr(room, "outlook", outlook)
            answers.append(post(client))
            return outlook(**about)

        monkeypatch.setattr(room, "outlook", slowly)
        return answers

    return slow_down


def post(client: Client, **fields: str) -> HttpResponse:
    return client.post("/jobs/check/", {"script": SCRIPT, **fields})


def test_one_outlook_at_a_time_is_worked_out_for_a_person(
    as_alice: Client, meanwhile: Callable[[Client], list[HttpResponse]]
):
    during = meanwhile(as_alice)
    assert is_told(post(as_alice)) == (True, False)
    assert [is_told(answer) for answer in during] == [(False, True)]
    assert is_told(post(as_alice)) == (True, False)


def test_nobody_waits_for_the_outlook_of_another_one(
    as_alice: Client, as_bob: Client, meanwhile: Callable[[Client], list[HttpResponse]]
):
    during = meanwhile(as_bob)
    assert is_told(post(as_alice)) == (True, False)
    assert [is_told(answer) for answer in during] == [(True, False)]


@pytest.fixture
def under_way(alice: User) -> Iterator[None]:
    """An outlook for Alice, by another process."""
    flag = f"outlook-for:{alice.pk}"
    assert broker.first(flag, 60.0)
    yield
    broker.clear(flag)


def test_what_is_wrong_is_told_while_an_outlook_is_worked_out(as_alice: Client, under_way: None):
    late = post(as_alice, dependency="afterok:4711")
    assert "there is no job 4711" in late.text
    assert "HX-Trigger" not in late.headers
    script = SCRIPT.replace("echo", "#SBATCH --time=1\necho")
    overruled = post(as_alice, script=script, walltime="2:00")
    assert "Walltime: the form" in overruled.text
    assert is_told(overruled) == (False, True)


def test_a_relaunch_asks_again_too(
    as_alice: Client, alice: User, project: Project, under_way: None
):
    old = cast.job(alice, project, state=State.COMPLETED)
    address = f"/jobs/{old.pk}/relaunch/check/"
    assert is_told(as_alice.post(address, {"script": SCRIPT})) == (False, True)


def test_a_job_is_taken_in_while_an_outlook_is_worked_out(as_alice: Client, under_way: None):
    assert as_alice.post("/jobs/new/", {"script": SCRIPT}).status_code == 302
    assert Job.objects.exists()


def test_after_a_mistake_the_next_one_gets_its_outlook(
    as_alice: Client, monkeypatch: pytest.MonkeyPatch
):
    def fails(**about: Any) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(room, "outlook", fails)
        post(as_alice)
    assert is_told(post(as_alice)) == (True, False)


def test_without_redis_everybody_gets_an_outlook(
    as_alice: Client, under_way: None, settings: Any, tmp_path: Path,
    another_redis: None,
):  # fmt: skip
    settings.REDIS_URL = f"unix://{tmp_path}/nobody-listens"
    assert is_told(post(as_alice)) == (True, False)
