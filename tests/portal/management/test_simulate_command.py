"""`manage.py simulate`: a table, a file, and messages in place of tracebacks."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from jobs.scheduler.simulate.policies import NAMED
from portal.management.commands import simulate as command

JOBS = """job_id,user,vc,gpu_num,state,submit_s,duration_s
1,ann,v1,8,COMPLETED,0,100
2,bob,v1,8,COMPLETED,0,100
3,ann,v2,4,COMPLETED,10,50
4,bob,v9,4,COMPLETED,10,50
"""


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "nodes.csv").write_text("vc,nodes\nv1,1\nv2,1\n")
    return str(tmp_path / "jobs.csv")


def simulate(jobs: str, *more: str, cluster: str = "") -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    nodes = cluster or str(Path(jobs).with_name("nodes.csv"))
    call_command("simulate", jobs, "--cluster", nodes, *more, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_policies_side_by_side_and_all_figures_in_a_file(jobs: str) -> None:
    mine = Path(jobs).with_name("mine.toml")
    mine.write_text('base = "fifo"\nwalls = "pool"\n')
    told = Path(jobs).with_name("told.json")
    out, err = simulate(jobs, "--policy", "fifo", "--policy", str(mine), "--json", str(told))
    assert err.strip() == "Left out: 1 jobs are of v9, which has no nodes."
    assert out.splitlines()[0] == "jobs.csv: 3 jobs on 2 nodes"
    assert [line.split()[0] for line in out.splitlines()[3:]] == ["fifo", "mine"]
    found = json.loads(told.read_text())
    assert found["fifo"]["mean_wait_s"] == pytest.approx(100 / 3)
    assert found["fifo"]["projects"]["v1"]["mean_wait_s"] == 50
    # In one pool the two of v1 run beside each other, and that of v2 waits for them.
    assert found["mine"]["mean_wait_s"] == pytest.approx(90 / 3)


def test_what_a_policy_needs_to_know_is_asked_for_before_the_first_is_played(
    jobs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Path(jobs).with_name("asking.toml")
    asking.write_text('lengths = "requested"\n')
    monkeypatch.setattr(command, "play", lambda *_: pytest.fail("hours were spent"))
    with pytest.raises(CommandError, match=r"asking: .* does not tell what time its users "):
        simulate(jobs, "--policy", "fifo", "--policy", str(asking))


def test_times_walls_and_a_number_of_nodes(jobs: str) -> None:
    out, _ = simulate(jobs, "--policy", "fifo", "--from", "5", "--until", "50", cluster="2")
    assert out.splitlines()[0] == "jobs.csv: 2 jobs on 2 nodes"
    out, _ = simulate(jobs, "--policy", "fifo", "--walls", "pool")
    assert " 30.0 " in out


@pytest.mark.parametrize(
    ("more", "cluster", "said"),
    [
        (["--policy", "best"], "", "no policy 'best': there are fifo, "),
        (["--from", "June"], "", "--from: must be a number of seconds, at most "),
        (["--format", "philly"], "", "jobs.csv, line 1: no column 'submit_time'"),
        ([], "none.csv", "none.csv: there is no such file"),
        (["--from", "10"], "0x", "0x: there is no such file"),
        (["--walls", "lent"], "2", "fifo: with walls lent the cluster must be a table "),
        (["--policy", "fifo", "--json", "/no/such/folder/x"], "", "/no/such/folder/x: No such"),
        (["--policy", "fifo", "--policy", "fifo"], "", "two policies are called 'fifo'"),
    ],
)
def test_what_is_wrong_is_a_message(jobs: str, more: list[str], cluster: str, said: str) -> None:
    with pytest.raises(CommandError) as told:
        simulate(jobs, *more, cluster=cluster)
    assert str(told.value).startswith(said)


def test_the_policies_are_told_with_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.Command().create_parser("manage.py", "simulate").parse_args(["--help"])
    lines = capsys.readouterr().out.splitlines()
    for name, policy in NAMED.items():
        assert policy.about and [name, policy.about] in [line.split(maxsplit=1) for line in lines]


@pytest.mark.parametrize("option", ["--walls", "--format"])
def test_choices_are_words(jobs: str, option: str) -> None:
    with pytest.raises(CommandError, match=r"invalid choice: 'none' \(choose from [a-z', ]+\)$"):
        simulate(jobs, option, "none")


def test_where_figures_cannot_be_written_nothing_is_played(
    jobs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "play", None)
    with pytest.raises(CommandError, match="Is a directory"):
        simulate(jobs, "--json", str(Path(jobs).parent))


def test_pods_without_times_are_for_the_bench(tmp_path: Path) -> None:
    pods = tmp_path / "pods.csv"
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,500\n")
    machines = tmp_path / "machines.csv"
    machines.write_text("sn,cpu_milli,memory_mib,gpu,model\nm,64000,131072,8,T4\n")
    with pytest.raises(CommandError, match=r"pods of openb .* Only bench/traces.py plays them"):
        simulate(str(pods), cluster=str(machines))


def test_no_job_fits(jobs: str) -> None:
    Path(jobs).write_text(JOBS.replace(",8,", ",80,").replace(",4,", ",40,"))
    with pytest.raises(CommandError, match="No job of this trace fits on this cluster"):
        simulate(jobs)
