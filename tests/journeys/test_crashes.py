"""Everything of the portal is killed while ten jobs run: each ends rightly, and ran once.

A job ends when the file of its stage appears, so that some end during every outage. Its log then
says how many lines it should have.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from bench.nodes import SshNode
from bench.portal import Person
from tests.lab.browser import Visitor
from tests.lab.portal import PARTS, Carrel, until

pytestmark = [pytest.mark.portal, pytest.mark.browser]

ALL = tuple(PARTS)


@dataclass(frozen=True)
class Kind:
    """What a job asks for, when it ends, and how."""

    stage: str
    end: str
    state: str = "COMPLETED"
    exit_code: int | None = 0
    signal: int | None = None
    nodes: int = 1
    gpus: int = 1


KINDS = (
    # Two nodes at once: the first to come finds room on both.
    Kind("all", 'exit "$SLURM_PROCID"', "FAILED", 1, nodes=2),
    Kind("worker", "exit 0"),
    Kind("worker", "exit 3", "FAILED", 3),
    Kind("beat", "exit 0", gpus=0),
    Kind("beat", "kill -KILL $$", "FAILED", None, 9),
    Kind("redis", "exit 0", gpus=0),
    Kind("redis", "exit 77", "FAILED", 77),
    Kind("web", "exit 0"),
    Kind("supervisor", "exit 0", nodes=1, gpus=0),
    Kind("supervisor", "exit 255", "FAILED", 255),
)


def script(name: str, kind: Kind, scratch: Path) -> str:
    return f"""#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={kind.nodes}
#SBATCH --gpus-per-node={kind.gpus}
#SBATCH --time=00:30:00
echo "$CARREL_JOB_ID.$SLURM_PROCID" >>{scratch}/started
number=0
until [ -e {scratch}/{kind.stage} ]; do
    number=$((number + 1)); echo "line $number"
    sleep 0.2
done
echo "last $number"
{kind.end}
"""


@pytest.fixture
def nodes(carrel: Carrel, machines: list[SshNode]) -> None:
    carrel.inside("add-nodes", json.dumps([asdict(machine) for machine in machines]))


@pytest.fixture
def again(carrel: Carrel, data: Path) -> Iterator[Carrel]:
    """The Carrel that comes back at the same address after the first one's death."""
    yield Carrel(data, port=carrel.port)


def test_every_job_ends_rightly_and_ran_once(
    carrel: Carrel, again: Carrel, nodes: None, browser: Browser, tmp_path: Path
) -> None:
    person = carrel.sign_in()
    visitor = Visitor(browser, carrel.address)
    visitor.sign_in(carrel.manage("sign_in_link").strip())
    jobs = {}
    for number, kind in enumerate(KINDS):
        jobs[person.submit(script(f"numbered-{number}", kind, tmp_path))[0]] = kind
    until(lambda: _states(carrel, jobs) == {"RUNNING": 10}, lambda: _states(carrel, jobs))
    visitor.stay()

    for outage in (("worker",), ("beat",), ("redis",), ("web",), ALL):
        stage = "all" if outage == ALL else outage[0]
        carrel.kill(*outage)
        (tmp_path / stage).touch()
        carrel.wait_until_well()
        _all_works(carrel, person, visitor, f"after-{stage}")
        assert visitor.stayed()

    assert "Traceback" not in carrel.told
    carrel.crash()
    (tmp_path / "supervisor").touch()
    with again:
        _all_works(again, person, visitor, "after-supervisor")
        assert visitor.stayed()
        again.wait_for_end(list(jobs), timeout_s=120)
        for job, kind in jobs.items():
            _ended_rightly(again, person, job, kind)
        assert _states(again, None) == {"COMPLETED": 5 + 6, "FAILED": 5}
    runs = Counter((tmp_path / "started").read_text().split())
    ranks = [f"{job}.{rank}" for job, kind in jobs.items() for rank in range(kind.nodes)]
    assert runs == Counter(ranks)


def _all_works(carrel: Carrel, person: Person, visitor: Visitor, name: str) -> None:
    """A job runs from its submission to its end, and the open page shows it by itself."""
    job, _ = _resubmit(person, f"#!/bin/bash\n#SBATCH --job-name={name}\necho works\n")
    row = visitor.page.locator(f"#job-row-{job}")
    expect(row.locator(".state")).to_have_text("Completed")
    assert carrel.rows("SELECT state, exit_code FROM portal_job WHERE id = ?", job) == [
        ("COMPLETED", 0)
    ]


def _resubmit(person: Person, text: str) -> tuple[int, float]:
    """On a new connection: the old one's other end was killed."""
    return person.twin().submit(text)


def _ended_rightly(carrel: Carrel, person: Person, job: int, kind: Kind) -> None:
    found = carrel.rows("SELECT state, exit_code, signal FROM portal_job WHERE id = ?", job)
    assert found == [(kind.state, kind.exit_code, kind.signal)], job
    attempts = "SELECT count(*) FROM portal_attempt WHERE job_id = ?"
    assert carrel.rows(attempts, job) == [(1,)]
    for rank in range(kind.nodes):
        log = person.twin().get(f"/jobs/{job}/log/download/?rank={rank}")
        lines = re.findall(r"^line (\d+)$", log, re.MULTILINE)
        assert lines == [str(number) for number in range(1, len(lines) + 1)], job
        assert f"\nlast {len(lines)}\n" in log, job


def _states(carrel: Carrel, jobs: dict[int, Kind] | None) -> Counter[str]:
    only = f"WHERE id IN ({','.join(map(str, jobs))})" if jobs else ""
    return Counter(dict(carrel.rows(f"SELECT state, count(*) FROM portal_job {only} GROUP BY 1")))
