"""The nodes' pages and what administrators do there."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.lifecycle import State
from portal.actions import nodes as actions
from portal.models import Event, Job, Node, Project, User
from tests.lab.sshd import free_port
from tests.portal import cast

VERBS = ("probe", "drain", "resume", "off", "remove")


@pytest.fixture
def job_on_gpu_2(alice: User, project: Project, node: Node) -> cast.Job:
    job = cast.job(alice, project, state=State.RUNNING, name='<img src="x" onerror="alert(1)">')
    cast.run(job, node, 2)
    return job


def test_each_gpu_is_a_tile_with_its_job(
    as_bob: Client, node: Node, job_on_gpu_2: cast.Job
) -> None:
    page = as_bob.get("/nodes/").content.decode()
    assert page.count('class="tile ') == 4
    assert f'href="/jobs/{job_on_gpu_2.pk}/"' in page
    assert "&lt;img src=" in page
    assert "<img src=" not in page
    assert "3 of 4 GPUs free" in page
    assert "31 °C" in page
    assert "52 W" in page or "53 W" in page


def test_htmx_gets_the_list_only(as_bob: Client, node: Node) -> None:
    page = as_bob.get("/nodes/", headers={"HX-Request": "true"}).content
    assert b"gpu-1" in page
    assert b"<html" not in page


@pytest.mark.parametrize("address", ["/nodes/", "/nodes/n0/", "/"])
def test_the_query_count_does_not_grow(
    as_alice: Client, alice: User, project: Project, address: str
) -> None:
    def grow(first: int, last: int) -> None:
        for number in range(first, last):
            node = cast.node(f"n{number}", gpus=8)
            cast.run(cast.job(alice, project, state=State.RUNNING), node, 0, 1)
            cast.job(alice, project)
            cast.job(alice, project, state=State.FAILED)

    grow(0, 2)
    few = queries(as_alice, address)
    grow(2, 9)
    assert queries(as_alice, address) == few


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as seen:
        assert client.get(address).status_code == 200
    return len(seen)


def test_nodes_are_paged_by_the_database(as_alice: Client, db: None) -> None:
    for number in range(23):
        cast.node(f"n{number:02}", gpus=0)
    first = as_alice.get("/nodes/").content.decode()
    second = as_alice.get("/nodes/?page=2").content.decode()
    assert "Nodes 1 to 20 of 23" in first
    assert ">n22<" in second
    assert ">n00<" not in second


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", {"gpu-1", "old-1", "gone-1"}),
        ("?q=OLD", {"old-1"}),
        ("?state=up", {"gpu-1"}),
        ("?state=drained", {"old-1"}),
        ("?state=down", {"gone-1"}),
        ("?state=nonsense", {"gpu-1", "old-1", "gone-1"}),
        ("?partition=elsewhere", set()),
    ],
)
def test_the_url_filters(as_alice: Client, node: Node, query: str, shown: set[str]) -> None:
    cast.node("old-1", drained=True)
    cast.node("gone-1", health=Node.Health.UNREACHABLE, problem="No route. Look at the cable.")
    page = as_alice.get(f"/nodes/{query}").content.decode()
    assert {name for name in ("gpu-1", "old-1", "gone-1") if f">{name}</a>" in page} == shown
    assert ("No node fits these filters" in page) == (not shown)


def test_a_state_is_called_the_same_by_filter_and_node(as_alice: Client, db: None) -> None:
    cast.node("gone-1", health=Node.Health.UNREACHABLE)
    page = as_alice.get("/nodes/?state=down").text
    assert page.count(">Out of reach<") == 2


def test_past_jobs_name_a_removed_node_without_a_link(
    as_alice: Client, node: Node, job_on_gpu_2: cast.Job
) -> None:
    def links() -> int:
        return as_alice.get(f"/jobs/{job_on_gpu_2.pk}/").text.count('href="/nodes/gpu-1/')

    assert links() == 2, "the node and its GPU"
    Node.objects.update(removed_at=timezone.now())
    assert links() == 0
    assert "gpu-1" in as_alice.get(f"/jobs/{job_on_gpu_2.pk}/").text


def test_an_empty_lab_says_what_to_do(as_alice: Client, as_admin: Client) -> None:
    assert b"An administrator of the lab adds them" in as_alice.get("/nodes/").content
    assert b'href="/add-node/"' in as_admin.get("/nodes/").content


def test_a_problem_stands_with_its_advice(as_alice: Client, db: None) -> None:
    cast.node("gone-1", health=Node.Health.UNREACHABLE, problem="No route. Look at the cable.")
    for address in ("/nodes/", "/nodes/gone-1/"):
        assert b"Look at the cable." in as_alice.get(address).content


def test_a_node_tells_all_of_itself(as_alice: Client, node: Node, job_on_gpu_2: cast.Job) -> None:
    Event.objects.create(at=timezone.now(), node=node, kind="probed", detail="4 GPUs <hr>")
    page = as_alice.get("/nodes/gpu-1/").content.decode()
    for words in ("carrel@192.0.2.7", "32", "256 GiB", "Running here", "4 GPUs &lt;hr&gt;"):
        assert words in page
    assert "Probe again" not in page, "only administrators are offered what only they may do"


def test_a_node_that_is_not_there(as_alice: Client, as_admin: Client, node: Node) -> None:
    Node.objects.update(removed_at=timezone.now())
    assert as_alice.get("/nodes/gpu-1/").status_code == 404
    for verb in VERBS:
        assert as_admin.post(f"/nodes/gpu-1/{verb}/", {"reason": "x"}).status_code == 404


@pytest.mark.parametrize("verb", VERBS)
def test_only_administrators_may(as_alice: Client, node: Node, verb: str) -> None:
    answer = as_alice.post(f"/nodes/gpu-1/{verb}/", {"reason": "mischief"})
    assert answer.status_code == 403
    assert b"Only administrators" in answer.content
    node.refresh_from_db()
    assert (node.drained, node.removed_at) == (False, None)


@pytest.mark.parametrize("verb", ("probe", "drain", "resume"))
def test_a_get_changes_nothing(as_admin: Client, node: Node, verb: str) -> None:
    answer = as_admin.get(f"/nodes/gpu-1/{verb}/", follow=True)
    assert answer.redirect_chain == [("/nodes/gpu-1/", 302)]
    assert not Event.objects.exists()
    assert as_admin.put(f"/nodes/gpu-1/{verb}/").status_code == 405


def test_drain_and_resume(as_admin: Client, node: Node) -> None:
    answer = as_admin.post("/nodes/gpu-1/drain/", {"reason": "new disks"}, follow=True)
    assert b"gpu-1 is drained" in answer.content
    assert b"Drained: new disks" in answer.content
    node.refresh_from_db()
    assert node.drained
    again = as_admin.post("/nodes/gpu-1/drain/", {"reason": "twice"}, follow=True)
    assert b"was drained already" in again.content
    assert b"takes jobs again" in as_admin.post("/nodes/gpu-1/resume/", follow=True).content
    node.refresh_from_db()
    assert not node.drained
    assert b"was not drained" in as_admin.post("/nodes/gpu-1/resume/", follow=True).content


@pytest.mark.parametrize("reason", ["", "   ", "x" * 201])
def test_a_drain_needs_a_reason_that_fits(as_admin: Client, node: Node, reason: str) -> None:
    answer = as_admin.post("/nodes/gpu-1/drain/", {"reason": reason})
    assert answer.status_code == 422
    assert b"field-error" in answer.content and b"gpu-1 is not drained" in answer.content
    assert re.search(rb"<input[^>]* autofocus", answer.content), "it is far below"
    assert reason.strip().encode() in answer.content
    node.refresh_from_db()
    assert not node.drained


def test_removing_asks_first(as_admin: Client, node: Node) -> None:
    assert b"Remove gpu-1?" in as_admin.get("/nodes/gpu-1/remove/").content
    node.refresh_from_db()
    assert node.removed_at is None
    answer = as_admin.post("/nodes/gpu-1/remove/", follow=True)
    assert answer.redirect_chain[-1][0] == "/nodes/"
    assert b"no longer a node" in answer.content
    assert not Node.objects.exists()


def test_a_node_at_work_is_not_removed(
    as_admin: Client, node: Node, job_on_gpu_2: cast.Job
) -> None:
    assert b"It still runs" in as_admin.get("/nodes/gpu-1/remove/").content
    answer = as_admin.post("/nodes/gpu-1/remove/", follow=True)
    assert b"still runs job" in answer.content
    assert Node.objects.get() == node


def test_an_administrator_says_that_a_machine_is_off(
    as_alice: Client, as_admin: Client, node: Node, job_on_gpu_2: cast.Job
) -> None:
    Node.objects.update(health=Node.Health.UNREACHABLE, problem="No route.")
    button = b'href="/nodes/gpu-1/off/"'
    assert button not in as_alice.get("/nodes/gpu-1/").content
    assert button in as_admin.get("/nodes/gpu-1/").content
    question = as_admin.get("/nodes/gpu-1/off/").text
    assert f'href="/jobs/{job_on_gpu_2.pk}/"' in question and "One job is given up" in question
    job_on_gpu_2.refresh_from_db()
    assert job_on_gpu_2.state == State.RUNNING, "asking changes nothing"
    answer = as_admin.post("/nodes/gpu-1/off/", follow=True)
    assert "counts as off and is drained; 1 job was on it" in answer.text
    job_on_gpu_2.refresh_from_db()
    node.refresh_from_db()
    assert (job_on_gpu_2.state, node.drained) == (State.NODE_FAIL, True)


def test_a_machine_that_answers_is_not_off(
    as_admin: Client, node: Node, job_on_gpu_2: cast.Job
) -> None:
    assert b'href="/nodes/gpu-1/off/"' not in as_admin.get("/nodes/gpu-1/").content
    assert b"It answers" in as_admin.get("/nodes/gpu-1/off/").content
    assert b"gpu-1 answers" in as_admin.post("/nodes/gpu-1/off/", follow=True).content
    job_on_gpu_2.refresh_from_db()
    node.refresh_from_db()
    assert (job_on_gpu_2.state, node.drained) == (State.RUNNING, False)


def test_probing_a_machine_that_is_there(as_admin: Client, node: Node) -> None:
    Node.objects.update(transport=Node.Transport.LOCAL, cpus=0)
    answer = as_admin.post("/nodes/gpu-1/probe/", follow=True)
    node.refresh_from_db()
    assert node.problem == "", node.problem
    assert b"gpu-1 was probed" in answer.content
    assert node.cpus > 0


def test_probing_a_machine_that_refuses(as_admin: Client, node: Node) -> None:
    actions.public_key()
    Node.objects.update(host="127.0.0.1", port=free_port())
    answer = as_admin.post("/nodes/gpu-1/probe/", follow=True)
    assert b"could not be probed" in answer.content
    node.refresh_from_db()
    assert node.problem


def test_old_figures_are_marked(as_alice: Client, node: Node) -> None:
    node.gpus.update(sampled_at=timezone.now())
    assert b'<span class="flag">' not in as_alice.get("/nodes/").content
    node.gpus.update(sampled_at=timezone.now() - timedelta(minutes=3))
    assert b'<span class="flag">' in as_alice.get("/nodes/").content


def test_the_practice_lab_is_labelled_and_goes_when_confirmed(
    as_alice: Client, as_admin: Client, alice: User, project: Project
) -> None:
    node = cast.node("practice-1", simulated=True)
    job = cast.job(alice, project)
    Job.objects.filter(pk=job.pk).update(partition=node.partition)
    page = as_alice.get("/nodes/").content
    assert b"This is a practice lab." in page
    assert b"Remove the practice lab" not in page
    assert as_alice.post("/practice/remove/").status_code == 403
    assert b"Remove the practice lab" in as_admin.get("/").content
    assert as_alice.get("/practice/remove/").status_code == 403
    told = as_admin.get("/practice/remove/").text
    assert "One job is cancelled" in told
    assert f'href="/jobs/{job.pk}/"' in told
    assert Node.objects.exists(), "looking changes nothing"
    answer = as_admin.post("/practice/remove/", follow=True)
    job.refresh_from_db()
    assert job.state == State.CANCELLED
    assert b"The practice lab is gone." in answer.content
    assert b"This is a practice lab." not in answer.content
    assert not Node.objects.exists()
