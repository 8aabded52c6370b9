"""A job's way from submission to its end, with real processes on this machine."""

from __future__ import annotations

import os
import pwd
import signal
from pathlib import Path

from django.utils import timezone

from portal.actions import cancel, hold, schedule
from portal.models import Allocation, Attempt, Checkpoint, Event, Job, Lease
from tests.portal import cast
from tests.portal.actions.conftest import Lab


def states(job: Job) -> list[str]:
    return list(Event.objects.filter(job=job, kind="state").values_list("new", flat=True))


def test_a_job_runs_and_ends(lab: Lab) -> None:
    node = lab.node("n1")
    job = lab.submit("echo hello; sleep 0.3")
    lab.end(job)
    assert states(job) == ["CONFIGURING", "RUNNING", "COMPLETED"]
    assert (job.exit_code, job.signal) == (0, None)
    assert job.submitted_at <= job.started_at <= job.ended_at
    assert lab.log(job) == "hello\n"
    assert node.allocations.get().log_kept


def test_it_sees_exactly_its_gpus(lab: Lab) -> None:
    lab.node("n1")
    job = lab.submit(
        '#!/bin/bash\n#SBATCH --gres=gpu:2\necho "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES"'
    )
    lab.end(job)
    order, uuids = lab.log(job).split()
    leased = Lease.objects.filter(allocation__attempt__job=job).values_list("gpu__uuid", flat=True)
    assert order == "PCI_BUS_ID"
    assert len(leased) == 2
    assert sorted(uuids.split(",")) == sorted(leased)
    assert not Lease.objects.filter(released_at=None).exists()


def test_what_it_got_is_told_though_it_asked_for_none_of_it(lab: Lab) -> None:
    lab.node("n1")
    gate = lab.directory / "gate"
    other = lab.submit(f"while [ ! -e {gate} ]; do sleep 0.05; done", gpus_per_node="1")
    lab.running(other)
    names = ("PARTITION", "ACCOUNT", "GPUS")
    told = "; ".join(f'echo "$SLURM_JOB_{name}"' for name in names)
    job = lab.submit(f'{told}; echo "$SLURM_SUBMIT_DIR"', gpus_per_node="2")
    lab.end(job)
    # As after a login, whatever HOME these tests were given.
    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert lab.log(job).splitlines() == ["gpu", job.project.name, "1,2", home]
    gate.touch()
    lab.end(other)


def test_exit_code_and_signal(lab: Lab) -> None:
    lab.node("n1")
    seven = lab.submit("exit 7")
    killed = lab.submit("kill -SEGV $$")
    lab.end(seven, killed)
    assert (seven.state, seven.reason, seven.exit_code) == ("FAILED", "NonZeroExitCode", 7)
    assert (killed.state, killed.reason, killed.signal) == ("FAILED", "RaisedSignal", 11)
    assert "SIGSEGV" in killed.detail


def test_the_second_waits_for_the_first(lab: Lab) -> None:
    lab.node("n1", gpus=1)
    gate = lab.directory / "gate"
    first = lab.submit(f"while [ ! -e {gate} ]; do sleep 0.05; done", gpus_per_node="1")
    second = lab.submit("true", gpus_per_node="1")
    lab.running(first)
    lab.step()
    assert lab.fresh(second).state == "PENDING"
    assert second.reason and str(first.pk) in second.detail
    gate.touch()
    lab.end(first, second)
    assert first.ended_at <= second.started_at


def test_cancel_ends_every_process(lab: Lab) -> None:
    lab.node("n1")
    pids = lab.directory / "pids"
    job = lab.submit(
        f"sleep 600 & echo $! >> {pids}\n(setsid sleep 601 & echo $! >> {pids})\n"
        f"echo $$ >> {pids}; wait"
    )
    lab.drive(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    assert cancel.cancel(job=job, actor=lab.owner, now=timezone.now())
    assert lab.fresh(job).state == "COMPLETING"
    assert Lease.objects.filter(released_at=None).count() == job.gpus
    lab.end(job)
    assert (job.state, job.reason) == ("CANCELLED", "CancelledByUser")
    assert "alice" in job.detail
    assert not any(_alive(int(pid)) for pid in pids.read_text().split())
    assert not cancel.cancel(job=job, actor=lab.owner, now=timezone.now())


def test_cancel_before_it_starts(lab: Lab) -> None:
    lab.node("n1")
    job = lab.submit("true", held="on")
    assert cancel.cancel(job=job, actor=lab.owner, now=timezone.now())
    assert lab.fresh(job).state == "CANCELLED"
    assert not Attempt.objects.exists()


def test_cancel_between_decision_and_launch(lab: Lab) -> None:
    lab.node("n1")
    proof = lab.directory / "proof"
    job = lab.submit(f"touch {proof}")
    schedule.schedule(now=timezone.now())
    assert lab.fresh(job).state == "CONFIGURING"
    cancel.cancel(job=job, actor=lab.owner, now=timezone.now())
    lab.end(job)
    assert job.state == "CANCELLED"
    assert not proof.exists()


def test_hold_and_release(lab: Lab) -> None:
    lab.node("n1")
    job = lab.submit("true", held="on")
    lab.step()
    assert (lab.fresh(job).state, job.reason) == ("PENDING", "JobHeldUser")
    root = cast.person("root", staff=True)
    assert hold.hold(job=job, actor=root, now=timezone.now())
    assert hold.release(job=job, actor=root, now=timezone.now())
    lab.step()
    assert (lab.fresh(job).state, job.reason) == ("PENDING", "JobHeldUser"), "its owner did not"
    assert hold.release(job=job, actor=lab.owner, now=timezone.now())
    lab.end(job)
    assert job.state == "COMPLETED"
    assert not hold.hold(job=job, actor=lab.owner, now=timezone.now())


def test_walltime_is_kept_on_the_node(lab: Lab) -> None:
    lab.node("n1")
    job = lab.submit("sleep 600", walltime="0:0:1")
    lab.end(job)
    assert (job.state, job.reason) == ("TIMEOUT", "TimeLimit")


def test_a_gang_starts_together_and_knows_its_ranks(lab: Lab) -> None:
    lab.node("n1")
    lab.node("n2")
    job = lab.submit('echo "$RANK/$WORLD_SIZE $MASTER_ADDR"', nodes="2", gpus_per_node="4")
    lab.end(job)
    logs = [lab.log(job, rank).split() for rank in (0, 1)]
    assert [words[0] for words in logs] == ["0/2", "1/2"]
    assert logs[0][1] == logs[1][1]


def test_one_part_of_a_gang_fails_and_the_other_is_ended(lab: Lab) -> None:
    lab.node("n1")
    lab.node("n2")
    job = lab.submit('[ "$RANK" = 1 ] && exit 3; sleep 600', nodes="2")
    lab.end(job)
    assert (job.state, job.exit_code) == ("FAILED", 3)
    causes = Allocation.objects.filter(attempt__job=job).values_list("cause", flat=True)
    assert list(causes) == ["stopped", "exited"]


def test_an_unstartable_script_says_why(lab: Lab) -> None:
    lab.node("n1")
    job = lab.submit("true", workdir="/no/such/directory")
    lab.end(job)
    assert (job.state, job.reason) == ("FAILED", "JobLaunchFailure")
    assert "/no/such/directory" in job.detail


def test_checkpoints_appear_when_they_are_whole(lab: Lab) -> None:
    lab.node("n1")
    gate = lab.directory / "gate"
    job = lab.submit(
        'echo weights > "$CARREL_CHECKPOINT_DIR/step_100.pt"\n'
        'exec 9> "$CARREL_CHECKPOINT_DIR/step_200.pt"; echo half >&9\n'
        f"while [ ! -e {gate} ]; do sleep 0.05; done"
    )
    lab.drive(lambda: Checkpoint.objects.filter(complete=True).exists())
    shown = dict(Checkpoint.objects.values_list("step", "complete"))
    assert shown.get(100) is True
    assert shown.get(200) is not True
    gate.touch()
    lab.end(job)
    assert set(Checkpoint.objects.filter(job=job).values_list("step", flat=True)) == {100, 200}


def test_an_array_runs_each_index_within_its_limit(lab: Lab) -> None:
    lab.node("n1")
    first = lab.submit("echo $SLURM_ARRAY_TASK_ID", array="1-3%1")
    jobs = list(Job.objects.filter(array_id=first.pk).order_by("array_index"))
    assert [job.label for job in jobs] == [f"{first.pk}_{index}" for index in (1, 2, 3)]
    lab.end(*jobs)
    assert [lab.log(job).strip() for job in jobs] == ["1", "2", "3"]
    ends = [job.ended_at for job in jobs]
    starts = [job.started_at for job in jobs]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))


def test_afterok_waits_and_never_starts_after_a_failure(lab: Lab) -> None:
    lab.node("n1")
    failing = lab.submit("exit 1")
    well = lab.submit("true", dependency=f"afternotok:{failing.pk}")
    never = lab.submit("true", dependency=f"afterok:{failing.pk}")
    lab.end(failing, well)
    lab.step()
    assert well.state == "COMPLETED"
    assert (lab.fresh(never).state, never.reason) == ("PENDING", "DependencyNeverSatisfied")


def test_a_killed_shepherd_is_told_apart_from_a_failing_job(lab: Lab) -> None:
    lab.node("n1")
    job = lab.submit("#!/bin/bash\n#SBATCH --no-requeue\nsleep 600")
    lab.running(job)
    key = Allocation.objects.get(attempt__job=job).key
    ours = [pid for pid in _pids() if f"CARREL_RUN={key}".encode() in _environ(pid)]
    parents = {_parent(pid) for pid in ours}
    for pid in parents | {_parent(pid) for pid in parents}:
        if pid > 1 and pid != os.getpid() and b"shepherd-" in _command(pid):
            os.kill(pid, signal.SIGKILL)
    lab.end(job)
    assert (job.state, job.reason) == ("NODE_FAIL", "RunLost")
    assert not any(_alive(pid) for pid in ours)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _environ(pid: int) -> bytes:
    return _read(pid, "environ")


def _command(pid: int) -> bytes:
    return _read(pid, "cmdline")


def _alive(pid: int) -> bool:
    """A zombie is dead; its parent only has not looked yet."""
    stat = _read(pid, "stat").rpartition(b")")[2].split()
    return bool(stat) and stat[0] != b"Z"


def _parent(pid: int) -> int:
    stat = _read(pid, "stat").rpartition(b")")[2].split()
    return int(stat[1]) if stat else 0
