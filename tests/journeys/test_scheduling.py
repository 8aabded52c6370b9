"""The scheduler at work in a browser: shares, a quota, a preemption, a gang and an estimate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.journeys.pages import cancel, save, state, submit, until_told
from tests.lab.browser import Visitor
from tests.lab.portal import Carrel, until

pytestmark = [pytest.mark.portal, pytest.mark.browser, pytest.mark.timeout(600)]

PEOPLE = """
from portal.models import User
for name in ('vera', 'lars'):
    User.objects.create_user(name)
"""
TASKS = 40
"""So many of equal size: the shares come out to a task or so of the ten that are due to one."""
SWEEP = """\
#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --account={project}
#SBATCH --array=1-50
#SBATCH --gres=gpu:4
#SBATCH --time=00:00:20
sleep 2
"""
"""More than `TASKS`: neither project runs out of work. And the tenth of its walltime that counts as
used from its start on is no more than a task takes."""
SAVES_ITSELF = """\
#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --account=language
#SBATCH --qos=best-effort
#SBATCH --gres=gpu:4
#SBATCH --nodelist=practice-3
#SBATCH --signal=USR1@60
#SBATCH --time=00:20:00
if [ -n "$CARREL_RESUME_FROM" ]; then
    echo "goes on from $(basename "$CARREL_RESUME_FROM"), restart $SLURM_RESTART_COUNT"
    exit 0
fi
save() {
    echo "warned: saving step $step"
    echo "$step" >"$CARREL_CHECKPOINT_DIR/.new"
    mv "$CARREL_CHECKPOINT_DIR/.new" "$CARREL_CHECKPOINT_DIR/model-step-$step.pt"
    sleep 3
    exit 138
}
trap save USR1
for step in $(seq 1000); do echo "step $step"; sleep 0.2; done
"""
MEETS = """\
#!/bin/bash
#SBATCH --job-name=gang
#SBATCH --account=vision
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --nodelist=practice-1,practice-2
#SBATCH --time=00:05:00
echo "rank $SLURM_PROCID is here"
touch {place}/rank-$SLURM_PROCID
until [ -e {place}/rank-0 ] && [ -e {place}/rank-1 ]; do sleep 0.1; done
echo "rank $SLURM_PROCID has met the other"
"""
"""Ends only where both run at the same time."""
FINETUNE = """\
#!/bin/bash
#SBATCH --job-name=finetune
#SBATCH --account=vision
#SBATCH --gres=gpu:4
#SBATCH --nodelist=practice-3
#SBATCH --time=00:30:00
until [ -e {place}/read ]; do sleep 0.1; done
sleep 15
"""
PAST = """
from datetime import timedelta
from django.utils import timezone
from portal.models import Event, Job
now = timezone.now()
like = Job.objects.get(name='finetune')
for minutes, seconds in enumerate((8, 400, 40, 320, 20, 240, 90, 160, 60, 360, 280, 120, 200, 75)):
    ended = now - timedelta(minutes=minutes)
    job = Job.objects.get(pk=like.pk)
    job.pk, job.submission_key, job.state = None, None, 'COMPLETED'
    job.started_at, job.ended_at = ended - timedelta(seconds=seconds), ended
    job.save()
    job.attempts.create(number=1, started_at=job.started_at, ended_at=ended, outcome='COMPLETED')
    Event.objects.create(at=now, job=job, kind='state', new='COMPLETED')
"""
"""From when the page is read the test's run for 8 s to 400 s, too. For however long the first has
run by then, one in ten of the longer ones ended within 80 s: the earliest start told is now."""
SPREAD = re.compile(r"in about \d+ min, between (.+) and (.+)")


@pytest.fixture(scope="module")
def carrel(data: Path) -> Iterator[Carrel]:
    with Carrel(data, practice=True) as started:
        yield started


@pytest.fixture(scope="module")
def enter(carrel: Carrel, browser: Browser) -> Iterator[Callable[[str], Page]]:
    """A window of whom a sign-in link is for; none of them has complained in the end."""
    visitors: list[Visitor] = []

    def open_window(link: str) -> Page:
        clipboard = ["clipboard-read", "clipboard-write"]
        visitors.append(Visitor(browser, carrel.address, permissions=clipboard))
        visitors[-1].sign_in(link)
        return visitors[-1].page

    yield open_window
    assert [said for visitor in visitors for said in visitor.complaints] == []


@pytest.fixture(scope="module")
def admin(carrel: Carrel, enter: Callable[[str], Page]) -> Page:
    """Who has made two projects with shares 3 and 1 and a member each, on their pages."""
    page = enter(carrel.sign_in_link)
    carrel.manage("shell", "-c", PEOPLE)
    for project, shares, member in (("vision", 3, "vera"), ("language", 1, "lars")):
        page.goto("/add-project/")
        page.get_by_label("Name").fill(project)
        page.get_by_label("Shares").fill(str(shares))
        save(page)
        page.goto(f"/projects/{project}/members/add/")
        page.get_by_label("User").select_option(member)
        save(page)
    # It would take a GPU of a node that others want whole.
    until(lambda: carrel.rows("SELECT id FROM portal_job"), lambda: carrel.told)
    cancel(page, carrel.rows("SELECT id FROM portal_job")[0][0])
    return page


@pytest.fixture(scope="module")
def vera(carrel: Carrel, admin: Page, enter: Callable[[str], Page]) -> Page:
    """Of project vision."""
    return enter(carrel.manage("sign_in_link", "vera").strip())


@pytest.fixture(scope="module")
def lars(carrel: Carrel, admin: Page, enter: Callable[[str], Page]) -> Page:
    """Of project language."""
    return enter(carrel.manage("sign_in_link", "lars").strip())


@pytest.fixture(autouse=True)
def _nothing_is_left(carrel: Carrel) -> Iterator[None]:
    """The lab is empty when a test ends."""
    yield
    unended = "SELECT id, name, state, detail FROM portal_job WHERE ended_at IS NULL"
    until(lambda: not carrel.rows(unended), lambda: carrel.rows(unended))


def test_shares_of_3_to_1_become_usage_of_3_to_1(
    carrel: Carrel, admin: Page, vera: Page, lars: Page
) -> None:
    arrays = [submit(vera, SWEEP.format(project="vision"))]
    arrays.append(submit(lars, SWEEP.format(project="language")))
    ended = "SELECT count(*) FROM portal_job WHERE state = 'COMPLETED' AND name = 'sweep'"
    until(lambda: carrel.rows(ended)[0][0] >= TASKS, lambda: carrel.rows(ended), within_s=300)
    admin.goto("/usage/")
    used = {name: _percent(admin, name) for name in ("vision", "language")}
    assert used["vision"] / used["language"] == pytest.approx(3, rel=0.2), used
    for page, array in zip((vera, lars), arrays, strict=True):
        page.goto(f"/arrays/{array}/cancel/")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#messages")).not_to_be_empty()


def test_a_quota_stops_the_next_job_and_says_so(
    carrel: Carrel, admin: Page, vera: Page, tmp_path: Path
) -> None:
    admin.goto("/projects/vision/quota/")
    admin.get_by_label("GPUs at once").fill("4")
    save(admin)
    first = submit(vera, until_told("first", tmp_path, "--account=vision", "--gres=gpu:4"))
    expect(state(vera)).to_have_text("Running")
    last = submit(vera, until_told("next", tmp_path, "--account=vision", "--gres=gpu:2"))
    why = vera.locator("#why")
    expect(why).to_contain_text(
        "Project vision may use 4 GPUs at once: 4 are in use, this asks for 2, 2 too many."
    )
    expect(why).to_contain_text("(AssocGrpGRES)")
    expect(state(vera)).to_have_text("Pending")
    cancel(vera, first)
    vera.goto(f"/jobs/{last}/")
    expect(state(vera)).to_have_text("Running")
    admin.goto("/projects/vision/quota/")
    admin.get_by_label("GPUs at once").fill("")
    save(admin)
    (tmp_path / "over").touch()


def test_a_best_effort_job_is_warned_makes_room_and_comes_back(
    carrel: Carrel, admin: Page, vera: Page, lars: Page, tmp_path: Path
) -> None:
    admin.goto("/settings/policy/")
    # No test lasts for the usual ten minutes.
    admin.get_by_label("Shortest run, in minutes").fill("0")
    admin.get_by_label("Grace, in seconds").fill("30")
    save(admin)
    victim = submit(lars, SAVES_ITSELF)
    expect(state(lars)).to_have_text("Running")
    expect(lars.locator(".log-text")).to_contain_text("step 5")
    wanted = ("--account=vision", "--qos=production", "--gres=gpu:4", "--nodelist=practice-3")
    submit(vera, until_told("deadline", tmp_path, *wanted))
    expect(lars.locator(".log-text")).to_contain_text("warned: saving step")
    expect(state(vera)).to_have_text("Running")
    expect(state(lars)).to_have_text("Pending")
    expect(lars.locator("#now")).to_contain_text("It goes on from")
    (tmp_path / "over").touch()
    expect(state(lars)).to_have_text("Completed")
    lars.goto(f"/jobs/{victim}/log/")
    expect(lars.locator(".log-text")).to_have_text(
        re.compile(r"^goes on from model-step-\d+\.pt, restart 1\s*$")
    )
    lars.goto(f"/jobs/{victim}/log/?attempt=1")
    expect(lars.locator(".log-text")).to_contain_text("warned: saving step")
    outcomes = "SELECT outcome FROM portal_attempt WHERE job_id = ? ORDER BY number"
    assert carrel.rows(outcomes, victim) == [("PREEMPTED",), ("COMPLETED",)]


def test_a_gang_starts_on_both_nodes_at_once_or_not_at_all(
    carrel: Carrel, vera: Page, lars: Page, tmp_path: Path
) -> None:
    one = ("--account=language", "--gres=gpu:1", "--nodelist=practice-1")
    submit(lars, until_told("in-the-way", tmp_path, *one))
    expect(state(lars)).to_have_text("Running")
    gang = submit(vera, MEETS.format(place=tmp_path))
    expect(vera.locator("#why")).to_contain_text("practice-1")
    expect(vera.locator("#why")).to_contain_text("in-the-way")
    parts = (
        "SELECT n.name, t.number, t.started_at FROM portal_allocation a"
        " JOIN portal_attempt t ON t.id = a.attempt_id JOIN portal_node n ON n.id = a.node_id"
        " WHERE t.job_id = ? ORDER BY 1"
    )
    assert carrel.rows(parts, gang) == []
    (tmp_path / "over").touch()
    expect(state(vera)).to_have_text("Completed")
    (first, one, begun), (second, other, same) = carrel.rows(parts, gang)
    assert (first, second, one, other, begun) == ("practice-1", "practice-2", 1, 1, same)
    for rank in (0, 1):
        vera.goto(f"/jobs/{gang}/log/?rank={rank}")
        expect(vera.locator(".log-text")).to_contain_text(f"rank {rank} has met the other")


def test_a_job_starts_within_the_time_that_its_page_told(
    carrel: Carrel, vera: Page, tmp_path: Path
) -> None:
    finetune = FINETUNE.format(place=tmp_path)
    submit(vera, finetune)
    expect(state(vera)).to_have_text("Running")
    carrel.manage("shell", "-c", PAST)
    submit(vera, finetune)
    job = submit(vera, finetune)
    expected = vera.locator("#why dd").filter(has_text=SPREAD)
    expect(expected).to_be_visible()
    told = SPREAD.search(expected.inner_text())
    read_at = datetime.now(UTC)
    assert told
    (tmp_path / "read").touch()
    expect(state(vera)).to_have_text("Running", timeout=240_000)
    began = "SELECT started_at FROM portal_job WHERE id = ?"
    started_at = datetime.fromisoformat(carrel.rows(began, job)[0][0]).replace(tzinfo=UTC)
    zone = ZoneInfo(carrel.environment.get("TZ") or "UTC")
    early, late = (_moment(words, read_at.astimezone(zone)) for words in told.groups())
    assert early <= started_at <= late, told[0]
    cancel(vera, job)


def test_the_change_that_a_page_offers_starts_the_job(vera: Page, tmp_path: Path) -> None:
    asked = ("--account=vision", "--gres=gpu:4", "--nodelist=practice-3")
    submit(vera, until_told("ahead", tmp_path, *asked))
    expect(state(vera)).to_have_text("Running")
    submit(vera, until_told("next", tmp_path, *asked))
    expect(vera.locator("#why")).to_contain_text("ahead")
    vera.get_by_role("link", name="What would start it sooner?").click()
    offered = vera.locator("#sooner")
    expect(offered).to_contain_text("On any node in place of those named it would start now.")
    offered.get_by_role("button", name="Change it so").click()
    expect(vera.locator("#messages")).to_contain_text("was changed.")
    expect(state(vera)).to_have_text("Running")
    (tmp_path / "over").touch()


def _moment(words: str, now: datetime) -> datetime:
    """`now`, `14:05` or `00:10 tomorrow`."""
    if words == "now":
        return now
    clock, _, day = words.partition(" ")
    at = datetime.combine(now, time.fromisoformat(clock), now.tzinfo)
    return at + timedelta(days=1) if day else at


def _percent(page: Page, project: str) -> float:
    """Of all that was used, as the usage page says."""
    row = page.locator(".usage tbody tr").filter(has_text=project)
    return float(row.locator("[data-label='of all']").inner_text().rstrip("%\N{NO-BREAK SPACE} "))
