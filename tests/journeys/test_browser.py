"""From the one-time link to a cancelled job, in a real browser and against real sshd."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from bench.nodes import SshNode
from bench.portal import Person
from tests.journeys.pages import (
    add_node,
    cancel,
    fingerprint,
    job_id,
    script,
    state,
    submit,
    write_script,
)
from tests.lab.browser import Visitor
from tests.lab.portal import Carrel, until

pytestmark = [pytest.mark.portal, pytest.mark.browser]

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=two-gpus
#SBATCH --gres=gpu:2
#SBATCH --time=00:10:00
echo "pinned to $CUDA_VISIBLE_DEVICES"
sleep 600 &
saved="$CARREL_CHECKPOINT_DIR"
exec 3>"$saved/model-step-000008.pt"
for number in $(seq 1 1200); do
    echo "line $number"
    if [ "$number" = 4 ]; then
        head -c 50000 /dev/urandom >"$saved/.fresh"
        mv "$saved/.fresh" "$saved/model-step-000004.pt"
    fi
    echo more >&3
    sleep 0.25
done
"""
UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture(scope="module")
def visitor(carrel: Carrel, browser: Browser) -> Visitor:
    """Somebody who came by the link that the start printed."""
    clipboard = ["clipboard-read", "clipboard-write"]
    found = Visitor(browser, carrel.address, permissions=clipboard)
    found.sign_in(carrel.sign_in_link)
    return found


@pytest.fixture(scope="module")
def nodes(carrel: Carrel, machines: list[SshNode], visitor: Visitor) -> None:
    """The first machine is added on the page, the second by command; each key is confirmed."""
    first, second = machines
    add_node(visitor.page, first)
    shown = carrel.manage(
        "nodes", "add", "127.0.0.1", "--user", second.login, "--port", str(second.port),
        "--name", second.name, "--fingerprint", fingerprint(second.host_key),
    )  # fmt: skip
    assert f"{second.name}: 4 GPUs" in shown


@pytest.fixture(autouse=True)
def _no_complaints(visitor: Visitor) -> Iterator[None]:
    """The browser's console stays empty on every page that a test visits."""
    visitor.complaints.clear()
    yield
    assert visitor.complaints == []


def test_a_link_signs_in_once(carrel: Carrel, visitor: Visitor, browser: Browser) -> None:
    late = Visitor(browser, carrel.address)
    late.page.goto(carrel.sign_in_link)
    expect(late.page.get_by_role("heading", level=1)).to_have_text(
        "This link does not work any more"
    )
    late.page.goto("/")
    expect(late.page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert late.complaints == []


def test_a_job_from_the_editor_to_its_cancellation(
    carrel: Carrel, nodes: None, visitor: Visitor
) -> None:
    page = visitor.page
    write_script(page, SCRIPT)
    expect(page.locator("#check")).to_contain_text("1 node with 2 GPUs, 1 CPU, 10 min")
    page.get_by_role("button", name="Submit", exact=True).click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("two-gpus")
    visitor.stay()
    job = job_id(page)
    expect(state(page)).to_have_text("Running")

    log = page.locator(".log-text")
    expect(log).to_contain_text("line 3")
    before = _last_line(log)
    until(lambda: _last_line(log) > before + 8, lambda: log.inner_text())

    printed = UUID.findall(log.inner_text().partition("\n")[0])
    shown = UUID.findall(page.locator(".allocation").inner_text())
    assert len(set(printed)) == 2
    assert sorted(printed) == sorted(shown)

    rows = page.locator("[id^=checkpoint-]")
    whole, half = (rows.filter(has_text=f"model-step-00000{step}.pt") for step in (4, 8))
    expect(whole).to_contain_text("complete")
    expect(half).to_contain_text("unfinished")
    expect(half).not_to_contain_text("complete")

    path, from_here = (whole.locator(".btn").nth(place).bounding_box() for place in (0, 1))
    assert path and from_here
    assert path["y"] == from_here["y"]

    (key,) = carrel.rows(
        "SELECT a.key FROM portal_allocation a JOIN portal_attempt t ON t.id = a.attempt_id"
        " WHERE t.job_id = ?", job
    )[0]  # fmt: skip
    # Between one `sleep` and the next there is no third one.
    until(lambda: len(_processes(key)) >= 3, lambda: _processes(key))
    page.get_by_role("link", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Cancel job {job}?")
    assert visitor.stayed()
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(page.locator("#messages")).to_contain_text("is being ended")
    visitor.stay()
    expect(state(page)).to_have_text("Cancelled")
    assert visitor.stayed()
    until(lambda: not _processes(key), lambda: _processes(key))
    expect(half).not_to_contain_text("complete")


def test_the_cancel_dialog_knows_that_the_job_has_started(nodes: None, visitor: Visitor) -> None:
    page = visitor.page
    job = submit(page, SCRIPT.replace("two-gpus", "held\n#SBATCH --hold"))
    visitor.stay()
    dialog = page.get_by_role("dialog")
    page.get_by_role("link", name="Cancel").click()
    expect(dialog).to_contain_text("It has not started yet, and never will.")
    page.request.post(f"/jobs/{job}/release/", form={
        "csrfmiddlewaretoken": page.locator("[name=csrfmiddlewaretoken]").first.input_value()
    }, headers={"Referer": page.url})  # fmt: skip
    expect(state(page)).to_have_text("Running")
    expect(dialog).to_contain_text("Its processes get a signal")
    assert visitor.stayed()
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(page.locator("#messages")).to_contain_text("is being ended")


def test_every_room_is_visited_without_a_complaint(
    carrel: Carrel, nodes: None, visitor: Visitor, machines: list[SshNode]
) -> None:
    page = visitor.page
    job = _quick_job(page, "for-the-rooms")
    for path in (
        "/", "/queue/", "/queue/?state=all", "/nodes/", f"/nodes/{machines[0].name}/",
        "/add-node/", "/jobs/new/", f"/jobs/{job}/", f"/jobs/{job}/log/",
        f"/jobs/{job}/log/search/?q=done", f"/jobs/{job}/relaunch/", "/account/",
    ):  # fmt: skip
        answer = page.goto(path)
        assert answer is not None and answer.ok, path
        expect(page.get_by_role("heading", level=1)).not_to_be_empty()
        page.wait_for_load_state("load")


def test_why_a_job_waits_is_read_whole_at_every_width(nodes: None, visitor: Visitor) -> None:
    page = visitor.page
    jobs = []
    for name in ("has-all", "wants-all"):
        whole = script(name, "#SBATCH --nodes=2", "#SBATCH --gpus-per-node=4") + "sleep 600\n"
        jobs.append(submit(page, whole))
        expect(state(page)).to_have_text("Pending" if name == "wants-all" else "Running")
    page.goto("/queue/")
    why = page.locator(f"#job-row-{jobs[1]} .why")
    expect(why).to_contain_text("at the latest")
    for width in (390, 768, 1024, 1280, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
        assert why.evaluate("line => line.scrollHeight - line.clientHeight") <= 1, width
    for job in jobs:
        cancel(page, job)


def test_two_quick_clicks_make_one_job(carrel: Carrel, nodes: None, visitor: Visitor) -> None:
    page = visitor.page
    write_script(page, script("twice"))
    page.get_by_role("button", name="Submit", exact=True).dblclick()
    expect(page.get_by_role("heading", level=1)).to_contain_text("twice")
    assert _count(carrel, "twice") == 1


def test_an_unknown_directive_is_named_and_all_that_was_typed_kept(
    carrel: Carrel, nodes: None, visitor: Visitor
) -> None:
    page = visitor.page
    typed = script("kept", "#SBATCH --quantum-bits=3")
    write_script(page, typed)
    page.get_by_label("CPUs per task").evaluate("field => field.closest('details').open = true")
    page.get_by_label("CPUs per task").fill("1")
    check = page.locator("#check")
    expect(check).to_contain_text("Line 3")
    expect(check).to_contain_text("quantum-bits")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("#script-errors")).to_contain_text("Line 3: --quantum-bits")
    assert page.locator("#id_script").input_value().splitlines() == typed.splitlines()
    assert page.get_by_label("CPUs per task").input_value() == "1"
    assert _count(carrel, "kept") == 0
    # A browser tells of the answer's status 422, which is ours and meant.
    visitor.complaints[:] = [said for said in visitor.complaints if "status of 422" not in said]


@pytest.fixture(scope="module")
def plain(carrel: Carrel, browser: Browser) -> Visitor:
    """The same person without JavaScript."""
    found = Visitor(browser, carrel.address, java_script_enabled=False)
    found.sign_in(carrel.manage("sign_in_link").strip())
    return found


def test_submit_and_cancel_without_scripts(carrel: Carrel, nodes: None, plain: Visitor) -> None:
    page = plain.page
    page.goto("/jobs/new/")
    page.get_by_role("textbox", name="Script", exact=True).fill(SCRIPT)
    page.get_by_role("button", name="Submit", exact=True).click()
    job = job_id(page)
    _reload_until(page, state(page), "Running")
    page.get_by_role("link", name="Show the log").click()
    _reload_until(page, page.locator(".log-text"), "line 3")
    page.goto(f"/jobs/{job}/")
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel two-gpus?")
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator("#messages")).to_contain_text("is being ended")
    _reload_until(page, state(page), "Cancelled")
    assert plain.complaints == []


def test_two_quick_clicks_make_one_job_without_scripts(
    carrel: Carrel, nodes: None, plain: Visitor
) -> None:
    page = plain.page
    page.goto("/jobs/new/")
    page.get_by_role("textbox", name="Script", exact=True).fill(script("twice-plain"))
    page.get_by_role("button", name="Submit", exact=True).dblclick()
    expect(page.get_by_role("heading", level=1)).to_contain_text("twice-plain")
    assert _count(carrel, "twice-plain") == 1


def test_the_same_form_sent_twice_at_once_makes_one_job(carrel: Carrel, nodes: None) -> None:
    token = carrel.manage("sign_in_link").strip().rstrip("/").rpartition("/")[2]
    person = Person(carrel.port)
    person.get(f"/enter/{token}/")
    person.post("/enter/", {"token": token})
    nonce = re.search(r'name="nonce"[^>]*value="([^"]+)"', person.get("/jobs/new/"))
    assert nonce is not None
    fields = {"script": script("at-once"), "nonce": nonce[1]}
    ends: list[str] = []
    copies = [person.twin() for _ in range(4)]
    threads = [
        threading.Thread(
            target=lambda copy=copy: ends.append(copy.post("/jobs/new/", fields)), daemon=True
        )
        for copy in copies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ends) == 4 and len(set(ends)) == 1
    assert _count(carrel, "at-once") == 1


def _quick_job(page: Page, name: str) -> int:
    job = submit(page, script(name))
    expect(state(page)).to_have_text("Completed")
    return job


def _last_line(log: Locator) -> int:
    numbers: list[Any] = re.findall(r"^line (\d+)$", log.inner_text(), re.MULTILINE)
    return int(numbers[-1]) if numbers else 0


def _reload_until(page: Page, found: Locator, words: str) -> None:
    def is_there() -> bool:
        # Chromium refuses to reload while it is still putting a page in the last one's place.
        page.goto(page.url)
        return found.count() > 0 and words in found.first.inner_text()

    until(is_there, page.content)


def _count(carrel: Carrel, name: str) -> int:
    return int(carrel.rows("SELECT count(*) FROM portal_job WHERE name = ?", name)[0][0])


def _processes(key: str) -> list[int]:
    """Living processes of a run; a zombie has no environment any more."""
    mark = f"CARREL_RUN={key}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found
