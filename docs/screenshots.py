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
OTHERS = {"jonas": "language", "li.wei": "vision"}
"""The other people, and their projects."""
WIDE = {"width": 1280, "height": 860}
TALL = {"nodes": 1000, "job": 1000, "why": 900, "project": 1000, "preview": 1000}
"""Pages of which one wants to see more at once, and their heights in pixels."""
NARROW = {"width": 390, "height": 844}
TRAIN = "python3 ~/shared/examples/train.py"
PEOPLE = """
from django.utils import timezone
from portal.actions.projects import create, set_member
from portal.actions.quotas import set_quota
from portal.models import User
by = dict(actor=User.objects.get(), now=timezone.now())
for name, project in {people!r}.items():
    shares = 3 if project == 'vision' else 1
    made = create(name=project, shares=shares, **by)
    set_member(project=made, user=User.objects.create_user(name), **by)
    set_quota(project=made, limits=dict(gpus=16, gpu_hours=2000), **by)
"""
PAST = """
from datetime import timedelta
from django.utils import timezone
from portal.models import Event, Job
now = timezone.now()
for name, hours in {runs!r}.items():
    for part in (0.8, 0.9, 1.0, 1.1):
        job = Job.objects.get(name=name, ended_at=None)
        job.pk, job.submission_key, job.state = None, None, 'COMPLETED'
        job.submitted_at = job.started_at = now - timedelta(hours=hours * part + 48)
        job.ended_at = now - timedelta(hours=48)
        job.save()
        job.attempts.create(
            number=1, started_at=job.started_at, ended_at=job.ended_at, outcome='COMPLETED')
        Event.objects.create(at=job.ended_at, job=job, kind='state', new='COMPLETED')
"""
"""Others of that name have run before, so that starts can be foretold."""


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


BEFORE = {"fold-pairs": 4.0, "lora-7b": 9.0, "resnet-baseline": 2.5}
"""For about how many hours."""


def main() -> int:
    TARGET.mkdir(exist_ok=True)
    # The first administrator is called as the account that starts Carrel.
    os.environ["LOGNAME"] = ME
    with (
        tempfile.TemporaryDirectory(prefix="carrel-", ignore_cleanup_errors=True) as scratch,
        Carrel(Path(scratch) / "lab", practice=True) as carrel,
        chromium() as browser,
    ):
        running, waiting = fill(carrel)
        take(carrel, browser, running, waiting)
    heavy = [path.name for path in TARGET.glob("*.png") if path.stat().st_size > LARGEST_BYTES]
    if heavy:
        print(f"more than {LARGEST_BYTES} bytes: {', '.join(heavy)}", file=sys.stderr)
    return 1 if heavy else 0


def fill(carrel: Carrel) -> tuple[int, int]:
    """Let people work until there is something to see; the ids of the jobs that are looked at, the
    one that runs and the one that waits."""
    until(lambda: _count(carrel, "RUNNING") == 1, lambda: carrel.told)  # the sample job
    carrel.manage("shell", "-c", PEOPLE.format(people=OTHERS))
    people = {ME: carrel.sign_in()} | {name: _enter(carrel, name) for name in OTHERS}
    for work in ENDED:
        people[work.who].submit(work.script)
    until(lambda: _count(carrel, "COMPLETED", "FAILED") >= len(ENDED), lambda: carrel.told)
    running = [people[work.who].submit(work.script)[0] for work in RUNNING][-1]
    until(lambda: _count(carrel, "RUNNING") >= len(RUNNING), lambda: carrel.told)
    carrel.manage("shell", "-c", PAST.format(runs=BEFORE))
    waiting, *_ = (people[work.who].submit(work.script)[0] for work in WAITING)
    saved = "SELECT count(*) FROM portal_checkpoint WHERE complete AND job_id = ?"
    until(lambda: carrel.rows(saved, running)[0][0] >= 3, lambda: carrel.told)
    return running, waiting


def take(carrel: Carrel, browser: Browser, job: int, waiting: int) -> None:
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
        ("why", light, f"/jobs/{waiting}/", _reason),
        ("project", light, "/projects/language/", _table),
        ("preview", light, "/projects/language/quota/", _lower),
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


def _reason(page: Page) -> None:
    expect(page.locator("#why")).to_contain_text("Expected start")


def _lower(page: Page) -> None:
    """What would come of a quota that is less than somebody waits for."""
    page.get_by_label("GPUs at once").fill("8")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("could never start")


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
