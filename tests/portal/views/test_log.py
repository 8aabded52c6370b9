"""A job's log on a page: shown, followed, searched, downloaded; and when its node is away."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from jobs.engines.contract import LogRange
from jobs.lifecycle import State
from jobs.nodes.transport import NoRoute
from portal import archive
from portal.models import Allocation, Job, Node, Project, User
from portal.queries import log_search, logs
from tests.portal import cast

HTMX = {"HX-Request": "true"}


@pytest.fixture
def running(alice: User, project: Project, node: Node, settings, tmp_path) -> Job:
    settings.LOG_ARCHIVE = tmp_path
    job = cast.job(alice, project, state=State.RUNNING)
    cast.run(job, node, 0)
    return job


@pytest.fixture
def printed(running: Job) -> Callable[[bytes], Job]:
    """Puts bytes into the archive as the log of the job's rank 0."""

    def keep(data: bytes) -> Job:
        part = Allocation.objects.get(attempt__job=running, rank=0)
        archive.write(part.key, data)
        Allocation.objects.filter(pk=part.pk).update(log_kept=True)
        return running

    return keep


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(**_: object) -> LogRange:
        raise NoRoute("gpu-1 did not answer within 5 s.")

    monkeypatch.setattr(logs, "read", read)


def test_the_end_of_the_log_is_in_the_page(as_bob: Client, printed):
    job = printed(b"x" * 200_000 + b"\nlast words\n")
    page = as_bob.get(f"/jobs/{job.pk}/log/").text
    assert "last words" in page
    assert len(page) < 100_000
    assert f"/jobs/{job.pk}/log/?rank=0&amp;before=" in page


def test_htmx_gets_the_part_alone(as_alice: Client, printed):
    part = as_alice.get(f"/jobs/{printed(b'hello').pk}/log/", headers=HTMX).text
    assert "hello" in part
    assert "<html" not in part


def test_no_log_before_the_start(as_alice: Client, alice: User, project: Project):
    job = cast.job(alice, project)
    assert "Nothing to read yet." in as_alice.get(f"/jobs/{job.pk}/log/").text
    assert as_alice.get(f"/jobs/{job.pk}/log/range/?offset=0").status_code == 404
    assert as_alice.get(f"/jobs/{job.pk}/log/download/").status_code == 404
    assert as_alice.get(f"/jobs/{job.pk}/log/search/?q=x").status_code == 404


@pytest.mark.parametrize("room", ["", "range/", "search/", "download/"])
def test_no_such_job(as_alice: Client, room: str):
    assert as_alice.get(f"/jobs/7/log/{room}").status_code == 404


@pytest.mark.parametrize("room", ["", "range/", "search/", "download/"])
def test_signed_in_people_only(client: Client, printed, room: str):
    assert client.get(f"/jobs/{printed(b'secret').pk}/log/{room}").status_code == 302


@pytest.mark.parametrize(
    "query",
    ["rank=9", "rank=x", "attempt=7", "attempt=x", "rank=-1", f"rank={'9' * 5000}",
     f"attempt={'9' * 5000}", "attempt=٣"],
)  # fmt: skip
def test_no_such_part(as_alice: Client, printed, query: str):
    page = as_alice.get(f"/jobs/{printed(b'hello').pk}/log/?{query}")
    assert page.status_code == 200
    assert "There is no such part of the log." in page.text


def test_each_node_of_a_gang_has_its_log(as_alice: Client, printed, running: Job):
    printed(b"rank zero")
    first = Allocation.objects.get(attempt__job=running)
    second = Allocation.objects.create(
        attempt=first.attempt, node=cast.node("gpu-2"), rank=1, key=f"j{running.pk}.a1.n1.abc",
        cpus=1, memory_mib=0, phase="ended", log_kept=True, charged_until=cast.NOW,
    )  # fmt: skip
    archive.write(second.key, b"rank one")
    page = as_alice.get(f"/jobs/{running.pk}/log/?rank=1").text
    assert "rank one" in page
    assert "rank zero" not in page
    assert f"/jobs/{running.pk}/log/?rank=0" in page


def test_what_follows_comes_as_escaped_html(as_alice: Client, printed):
    job = printed(b"one\n<b>two</b>\nthree")
    found = as_alice.get(f"/jobs/{job.pk}/log/range/?offset=4").json()
    assert found == {
        "start": 4,
        "next": 15,
        "size": 20,
        "more": False,
        "lines": "&lt;b&gt;two&lt;/b&gt;\n",
        "open": "three",
    }
    before = as_alice.get(f"/jobs/{job.pk}/log/range/?before=4").json()
    assert (before["start"], before["lines"]) == (0, "one\n")


@pytest.mark.parametrize("offset", ["x", "-5", "", "99999999999999999999"])
def test_odd_offsets_do_no_harm(as_alice: Client, printed, offset: str):
    job = printed(b"hello\n")
    assert as_alice.get(f"/jobs/{job.pk}/log/range/?offset={offset}").status_code == 200


def test_a_huge_log_is_read_in_ranges_only(
    as_alice: Client, running: Job, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []

    def read(*, allocation: Allocation, offset: int, length: int) -> LogRange:
        asked.append(length)
        start = 10**9 + offset if offset < 0 else offset
        return LogRange(start, b"line\n" * (length // 5), 10**9)

    monkeypatch.setattr(logs, "read", read)
    page = as_alice.get(f"/jobs/{running.pk}/log/").text
    part = as_alice.get(f"/jobs/{running.pk}/log/range/?offset=500000000").text
    assert len(page) + len(part) < 1_000_000
    assert max(asked) <= logs.MAX_RANGE
    assert len(asked) == 2


def test_a_node_that_is_away_is_said_with_advice(as_alice: Client, running: Job, unreachable):
    page = as_alice.get(f"/jobs/{running.pk}/log/")
    assert page.status_code == 200
    assert "gpu-1 did not answer within 5 s." in page.text
    assert NoRoute.advice in page.text
    found = as_alice.get(f"/jobs/{running.pk}/log/range/?offset=0")
    assert found.status_code == 503
    assert found.json()["advice"] == NoRoute.advice
    assert NoRoute.advice in as_alice.get(f"/jobs/{running.pk}/log/search/?q=x").text
    assert as_alice.get(f"/jobs/{running.pk}/log/download/").status_code == 503


def test_the_jobs_page_never_asks_a_node(as_alice: Client, running: Job, unreachable):
    page = as_alice.get(f"/jobs/{running.pk}/").text
    assert f'hx-get="/jobs/{running.pk}/log/?rank=0"' in page
    assert f'href="/jobs/{running.pk}/log/?rank=0"' in page


def test_a_log_that_was_removed(as_alice: Client, running: Job):
    Allocation.objects.update(log_kept=True)
    assert "no longer where it was kept" in as_alice.get(f"/jobs/{running.pk}/log/").text


def test_search(as_alice: Client, printed):
    job = printed(b"epoch 1\n<i>Error</i> here\nepoch 2\n")
    page = as_alice.get(f"/jobs/{job.pk}/log/search/?q=error").text
    assert "1 line with “error”" in page
    assert "&lt;i&gt;<mark>Error</mark>&lt;/i&gt; here" in page
    assert (
        f'/jobs/{job.pk}/log/?rank=0&amp;at=11" aria-label="Show the log around line 2">2<' in page
    )
    assert "No line with" in as_alice.get(f"/jobs/{job.pk}/log/search/?q=<script>").text
    around = as_alice.get(f"/jobs/{job.pk}/log/?at=11").text
    assert "&lt;i&gt;Error" in around


def test_a_search_that_goes_on_counts_on(as_alice: Client, printed):
    job = printed(b"hit\n" * (log_search.MAX_MATCHES + 1))
    page = as_alice.get(f"/jobs/{job.pk}/log/search/?q=hit").text
    further = re.search(r'<a href="([^"]+)"[^>]*>Search on</a>', page)
    assert further
    rest = as_alice.get(html.unescape(further[1])).text
    assert "1 line with “hit”" in rest
    assert f"Show the log around line {log_search.MAX_MATCHES + 1}" in rest


def test_the_words_searched_for_are_text(as_alice: Client, printed):
    page = as_alice.get(f"/jobs/{printed(b'x').pk}/log/search/", {"q": '"><script>alert(1)'}).text
    assert "<script>alert" not in page


def test_download_in_ranges(alice: User, printed):
    data = bytes(range(256)) * 5000
    job = printed(data)

    async def fetch() -> tuple[dict[str, str], list[bytes]]:
        client = AsyncClient()
        await client.aforce_login(alice)
        response = await client.get(f"/jobs/{job.pk}/log/download/")
        assert response.is_async
        return dict(response.items()), [part async for part in response]

    headers, parts = async_to_sync(fetch)()
    assert b"".join(parts) == data
    assert len(parts) == 2
    assert headers["Content-Length"] == str(len(data))
    assert (
        headers["Content-Disposition"]
        == f'attachment; filename="job-{job.pk}.attempt-1.rank-0.log"'
    )
    assert headers["Content-Type"].startswith("text/plain")
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_answers_are_json_for_scripts(as_alice: Client, printed):
    response = as_alice.get(f"/jobs/{printed(b'').pk}/log/range/")
    assert json.loads(response.content)["size"] == 0
