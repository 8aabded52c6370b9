"""What journeys do on pages again and again."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from bench.nodes import SshNode

JOB_PAGE = re.compile(r"/jobs/(\d+)/$")


def add_node(page: Page, machine: SshNode) -> None:
    """Its key is confirmed on the way."""
    page.goto("/add-node/")
    page.get_by_label("Host", exact=True).fill("127.0.0.1")
    page.get_by_label("SSH port").fill(str(machine.port))
    page.get_by_label("Account").fill(machine.login)
    page.get_by_label("Name in the lab").fill(machine.name)
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#fingerprint")).to_have_text(fingerprint(machine.host_key))
    page.get_by_role("button", name="The fingerprint is right").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(machine.name)
    expect(page.locator("#messages")).to_contain_text("is a node now: 4 GPUs")
    expect(page.locator(".tile")).to_have_count(4)


def fingerprint(line: str) -> str:
    """As `ssh-keygen -lf` tells it, worked out apart from our own code."""
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def script(name: str, *more: str) -> str:
    """A job that ends at once, with more `#SBATCH` lines."""
    lines = ["#!/bin/bash", f"#SBATCH --job-name={name}", *more, "echo done"]
    return "\n".join(lines) + "\n"


def write_script(page: Page, script: str) -> None:
    """Paste it into the editor in place of what stands there, as people do."""
    page.goto("/jobs/new/")
    page.evaluate("text => navigator.clipboard.writeText(text)", script)
    page.locator(".cm-content").click()
    for keys in ("Control+A", "Control+V"):
        page.keyboard.press(keys)
    expect(page.locator("#id_script")).to_have_value(script)


def job_id(page: Page) -> int:
    """Of the job whose page this is, or is about to be."""
    page.wait_for_url(JOB_PAGE)
    found = JOB_PAGE.search(page.url)
    assert found, page.url
    return int(found[1])


def state(page: Page) -> Locator:
    """The word on a job's page."""
    return page.locator(".standing .state")


def save(page: Page) -> None:
    """As it was previewed."""
    page.get_by_role("button", name="Preview").click()
    page.locator("#preview").get_by_role("button").first.click()
    expect(page.locator("#messages")).to_contain_text("Saved.")


def submit(page: Page, script: str) -> int:
    """Its job's page is open then."""
    write_script(page, script)
    page.get_by_role("button", name="Submit", exact=True).click()
    return job_id(page)


def until_told(name: str, place: Path, *directives: str) -> str:
    """A job that ends when the file `over` appears there."""
    asked = (f"--job-name={name}", "--time=00:10:00", *directives)
    lines = "".join(f"#SBATCH {line}\n" for line in asked)
    return f"#!/bin/bash\n{lines}until [ -e {place}/over ]; do sleep 0.1; done\necho over\n"


def cancel(page: Page, job: int) -> None:
    """While it waits or runs."""
    page.goto(f"/jobs/{job}/cancel/")
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator("#messages")).not_to_be_empty()
