"""`make run` on an empty directory: a practice lab at work, seen in a browser, and its removal."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.lab.browser import Visitor
from tests.lab.portal import Carrel, until

pytestmark = [pytest.mark.portal, pytest.mark.browser]

STATES = ["Pending", "Starting", "Running", "Ending", "Completed"]
KEEP_STATES = """
window.seen = [];
const look = () => {
  const words = document.querySelector("[id^=job-row-] .state")?.textContent;
  if (words && words !== window.seen.at(-1)) window.seen.push(words);
};
look();
new MutationObserver(look).observe(document.body,
  {subtree: true, childList: true, characterData: true});
"""
SAMPLE_ENDS_WITHIN_MS = 240_000


@pytest.fixture(scope="module")
def carrel(data: Path) -> Iterator[Carrel]:
    """As somebody starts it who has never seen it: the practice lab is there."""
    with Carrel(data, practice=True) as started:
        yield started


@pytest.fixture(scope="module")
def overview(carrel: Carrel, browser: Browser) -> Visitor:
    """Where somebody is once signed in; the page stays open and remembers the job's states."""
    found = Visitor(browser, carrel.address)
    found.sign_in(carrel.sign_in_link)
    found.page.evaluate(KEEP_STATES)
    found.stay()
    return found


@pytest.fixture(scope="module")
def row(overview: Visitor) -> Locator:
    """The only job's, on the overview."""
    return overview.page.locator("[id^=job-row-]")


@pytest.fixture(scope="module")
def visitor(carrel: Carrel, browser: Browser, overview: Visitor) -> Visitor:
    """The same person in another window."""
    return Visitor(browser, carrel.address, storage_state=overview.context.storage_state())


def test_the_sample_job_runs(
    carrel: Carrel, overview: Visitor, row: Locator, visitor: Visitor
) -> None:
    expect(row).to_contain_text("spirals")
    expect(row.locator(".state")).to_have_text("Running")
    expect(row.get_by_text("practice", exact=True)).to_be_visible()

    page = visitor.page
    page.goto(row.get_by_role("link", name="spirals").get_attribute("href") or "")
    log = page.locator(".log-text")
    expect(log).to_contain_text(re.compile(r"epoch +\d+/60"))
    before = log.inner_text().count("epoch")
    until(lambda: log.inner_text().count("epoch") > before + 2, log.inner_text)
    expect(page.locator("[id^=checkpoint-]").first).to_contain_text("complete")
    expect(page.locator(".timeline")).to_contain_text("Submitted")
    (job,) = json.loads(carrel.manage("jobs", "--json"))
    assert (job["name"], job["state"]) == ("spirals", "RUNNING")
    assert sorted(job["allocation"][0]["gpus"]) == page.locator(".uuid").all_inner_texts()
    assert job["checkpoints"][0]["name"].startswith("checkpoint-step-")
    assert visitor.complaints == overview.complaints == []


def test_every_page_says_that_this_is_practice(carrel: Carrel, visitor: Visitor) -> None:
    page = visitor.page
    (job,) = json.loads(carrel.manage("jobs", "--json"))
    paths = ["/", "/queue/?state=all", "/nodes/", "/nodes/practice-1/", f"/jobs/{job['id']}/"]
    for path in paths:
        page.goto(path)
        expect(page.get_by_label("Practice lab")).to_contain_text("simulated")
        expect(page.locator("main .practice").first).to_have_text("practice")
    for path in ("/jobs/new/", "/account/", f"/jobs/{job['id']}/log/", "/add-node/"):
        page.goto(path)
        expect(page.get_by_label("Practice lab")).to_contain_text("simulated")
    assert visitor.complaints == []


def test_a_drain_without_a_reason_shows_where_it_is_missing(visitor: Visitor) -> None:
    page = visitor.page
    page.goto("/nodes/practice-1/")
    page.get_by_role("button", name="Drain practice-1").click()
    expect(page.get_by_role("alert")).to_contain_text("practice-1 is not drained")
    reason = page.get_by_label("Why")
    expect(reason).to_be_focused()
    expect(reason).to_be_in_viewport()
    page.goto(page.url)
    expect(page).to_have_url(re.compile("/nodes/practice-1/$"))
    # A browser tells of the answer's status 422, which is ours and meant.
    visitor.complaints[:] = [said for said in visitor.complaints if "status of 422" not in said]
    assert visitor.complaints == []


def test_healthz_names_a_worker_that_hangs(carrel: Carrel) -> None:
    carrel.wait_until_well()
    worker = carrel.pid("worker")
    assert worker is not None
    os.kill(worker, signal.SIGSTOP)
    try:
        until(lambda: carrel.health()[0] == 503, carrel.health)
        told: dict[str, Any] = carrel.health()[1]
        assert told["status"] == "degraded"
        assert [part for part, word in told["parts"].items() if word != "ok"] == ["worker"]
    finally:
        os.kill(worker, signal.SIGCONT)
    carrel.wait_until_well()


def test_the_sample_job_ends_on_the_overview(
    carrel: Carrel, overview: Visitor, row: Locator
) -> None:
    overview.page.bring_to_front()
    expect(row.locator(".state")).to_have_text("Completed", timeout=SAMPLE_ENDS_WITHIN_MS)
    assert overview.stayed()
    seen = overview.page.evaluate("window.seen")
    assert {"Running", "Completed"} <= set(seen)
    assert seen == [words for words in STATES if words in seen]
    (job,) = json.loads(carrel.manage("jobs", "--json"))
    moves = "SELECT old, new FROM portal_event WHERE job_id = ? AND new != '' ORDER BY id"
    told = [new for _, new in carrel.rows(moves, job["id"])]
    assert told == ["PENDING", "CONFIGURING", "RUNNING", "COMPLETED"]
    assert overview.complaints == []


def test_the_pages_and_the_commands_agree(carrel: Carrel, visitor: Visitor) -> None:
    page = visitor.page
    nodes = json.loads(carrel.manage("nodes", "list", "--json"))
    assert [node["name"] for node in nodes] == ["practice-1", "practice-2", "practice-3"]
    for node in nodes:
        page.goto(f"/nodes/{node['name']}/")
        expect(page.locator(".tile")).to_have_count(len(node["gpus"]))
        titles = [tile.get_attribute("title") for tile in page.locator(".tile-index").all()]
        assert titles == [gpu["uuid"] for gpu in node["gpus"]]
    (job,) = json.loads(carrel.manage("jobs", "--json"))
    page.goto(f"/jobs/{job['id']}/")
    expect(page.locator(".standing .state")).to_have_text(
        "Completed", timeout=SAMPLE_ENDS_WITHIN_MS
    )
    (job,) = json.loads(carrel.manage("jobs", "--json"))
    saved = page.locator("[id^=checkpoint-] .title").all_inner_texts()
    assert set(saved) == {found["name"] for found in job["checkpoints"]}


def test_an_administrator_takes_the_practice_lab_away(carrel: Carrel, visitor: Visitor) -> None:
    page = visitor.page
    page.goto("/")
    page.get_by_role("link", name="Remove the practice lab").click()
    page.get_by_role("button", name="Remove the practice lab").click()
    expect(page.locator("#messages")).not_to_be_empty()

    def is_gone() -> bool:
        page.goto("/")
        return page.get_by_label("Practice lab").count() == 0

    until(is_gone, page.content)
    assert json.loads(carrel.manage("nodes", "list", "--json")) == []
    expect(page.locator("main")).to_contain_text("Add a node")
    until(lambda: "the practice lab was removed" in carrel.told, lambda: carrel.told)
    carrel.wait_until_well()
    assert visitor.complaints == []
