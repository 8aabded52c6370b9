"""Take the pictures in `docs/screenshots/`: a practice lab with people at work, in Chromium.

`make screenshots` starts a Carrel of its own for it and ends it again; it takes two minutes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, Page, expect  # noqa: E402

from bench.portal import Person  # noqa: E402
from tests.lab.browser import Visitor, chromium  # noqa: E402
from tests.lab.portal import Carrel, until  # noqa: E402

TARGET = ROOT / "docs" / "screenshots"
LARGEST_BYTES = 200_000
ME = "mira"
OTHERS = ("jonas", "li.wei")
WIDE = {"width": 1280, "height": 860}
TALL = {"nodes": 1000, "job": 1000}
"""Pages of which one wants to see more at once, and their heights in pixels."""
NARROW = {"width": 390, "height": 844}
TRAIN = "python3 ~/shared/examples/train.py"
PEOPLE = """
from portal.models import Membership, Project, User
for name in {names!r}:
    person = User.objects.create_user(name)
    Membership.objects.create(user=person, project=Project.objects.get())
"""


@dataclass(frozen=True)
class Work:
    """A job that somebody submits."""

    who: str
    name: str
    command: str
    directives: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        lines = (f"--job-name={self.name}", *self.directives)
        return "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "", self.command])


ENDED = (
    Work("jonas", "tokenize-corpus", "echo 48213 documents", ("--time=1:00:00",)),
    Work("li.wei", "check-data", "echo 'labels.csv: line 311: no class' >&2; exit 2"),
    Work(ME, "smoke-test", "nvidia-smi", ("--gres=gpu:1", "--time=0:05:00")),
)
LONG = f"{TRAIN} --epochs 900 --seconds 900"
RUNNING = (
    Work("li.wei", "fold-pairs", LONG, ("--nodes=2", "--gpus-per-node=2", "--time=6:00:00")),
    Work("jonas", "lora-7b", LONG, ("--gres=gpu:h100:3", "--time=12:00:00")),
    Work(ME, "resnet-baseline", f"{TRAIN} --epochs 200 --seconds 240",
         ("--gres=gpu:2", "--time=4:00:00")),
)  # fmt: skip
WAITING = (
    Work("jonas", "pretrain-base", LONG,
         ("--nodes=3", "--gpus-per-node=4", "--time=2-00:00:00")),
    Work(ME, "sweep-lr", f"{TRAIN} --seconds 120",
         ("--array=1-4%2", "--gres=gpu:1", "--time=1:00:00")),
)  # fmt: skip


def main() -> int:
    TARGET.mkdir(exist_ok=True)
    # The first administrator is called as the account that starts Carrel.
    os.environ["LOGNAME"] = ME
    with (
        tempfile.TemporaryDirectory(prefix="carrel-", ignore_cleanup_errors=True) as scratch,
        Carrel(Path(scratch) / "lab", practice=True) as carrel,
        chromium() as browser,
    ):
        job = fill(carrel)
        take(carrel, browser, job)
    heavy = [path.name for path in TARGET.glob("*.png") if path.stat().st_size > LARGEST_BYTES]
    if heavy:
        print(f"more than {LARGEST_BYTES} bytes: {', '.join(heavy)}", file=sys.stderr)
    return 1 if heavy else 0


def fill(carrel: Carrel) -> int:
    """Let people work until there is something to see; the id of the job that is looked at."""
    until(lambda: _count(carrel, "RUNNING") == 1, lambda: carrel.told)  # the sample job
    carrel.manage("shell", "-c", PEOPLE.format(names=OTHERS))
    people = {ME: carrel.sign_in()} | {name: _enter(carrel, name) for name in OTHERS}
    for work in ENDED:
        people[work.who].submit(work.script)
    until(lambda: _count(carrel, "COMPLETED", "FAILED") >= len(ENDED), lambda: carrel.told)
    found = [people[work.who].submit(work.script)[0] for work in RUNNING][-1]
    until(lambda: _count(carrel, "RUNNING") >= len(RUNNING), lambda: carrel.told)
    for work in WAITING:
        people[work.who].submit(work.script)
    saved = "SELECT count(*) FROM portal_checkpoint WHERE complete AND job_id = ?"
    until(lambda: carrel.rows(saved, found)[0][0] >= 3, lambda: carrel.told)
    return found


def take(carrel: Carrel, browser: Browser, job: int) -> None:
    def window(**settings: object) -> Page:
        visitor = Visitor(browser, carrel.address, **settings)
        visitor.sign_in(carrel.manage("sign_in_link").strip())
        return visitor.page

    light, dark = window(viewport=WIDE), window(viewport=WIDE, color_scheme="dark")
    small = window(viewport=NARROW, device_scale_factor=2)
    shots: tuple[tuple[str, Page, str, Callable[[Page], None]], ...] = (
        ("overview-light", light, "/", _table),
        ("overview-dark", dark, "/", _table),
        ("overview-390", small, "/", _table),
        ("queue", light, "/queue/", _table),
        ("nodes", light, "/nodes/", lambda page: expect(page.locator(".tile")).to_have_count(12)),
        ("submit", light, "/jobs/new/", _write),
        ("job", light, f"/jobs/{job}/", _log),
        ("job-dark", dark, f"/jobs/{job}/", _log),
    )
    for name, page, path, ready in shots:
        page.goto(path)
        ready(page)
        page.evaluate("document.fonts.ready")
        _shoot(page, TARGET / f"{name}.png")


def _shoot(page: Page, path: Path) -> None:
    usual = page.viewport_size
    if height := TALL.get(path.stem):
        page.set_viewport_size({"width": WIDE["width"], "height": height})
    page.screenshot(path=path, animations="disabled")
    if usual:
        page.set_viewport_size(usual)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


def _table(page: Page) -> None:
    expect(page.locator("[id^=job-row-]").first).to_be_visible()


def _log(page: Page) -> None:
    expect(page.locator(".log-text")).to_contain_text("epoch  20/")


def _write(page: Page) -> None:
    """What the form says of a script that somebody has just typed."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("text => navigator.clipboard.writeText(text)", RUNNING[-1].script + "\n")
    page.locator(".cm-content").click()
    for keys in ("Control+A", "Control+V"):
        page.keyboard.press(keys)
    expect(page.locator("#check")).to_contain_text("2 GPUs")


def _enter(carrel: Carrel, name: str) -> Person:
    token = carrel.manage("sign_in_link", name).strip().rstrip("/").rpartition("/")[2]
    person = Person(carrel.port)
    person.get(f"/enter/{token}/")
    person.post("/enter/", {"token": token})
    return person


def _count(carrel: Carrel, *states: str) -> int:
    found = dict(carrel.rows("SELECT state, count(*) FROM portal_job GROUP BY 1"))
    return sum(found.get(state, 0) for state in states)


if __name__ == "__main__":
    sys.exit(main())
