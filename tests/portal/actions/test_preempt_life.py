"""Preempted with real processes: the signal, the grace, the way back and where it goes on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from django.db import transaction
from django.utils import timezone

import jobs.practice
from jobs.scheduler.policy import Policy
from portal.actions import preempt
from portal.models import Allocation, Checkpoint, Job
from tests.portal.actions.conftest import Lab

TRAIN = Path(jobs.practice.__file__).with_name("train.py")


def make_room(victim: Job, other: Job, *, grace_s: float = 60) -> None:
    with transaction.atomic():
        policy = Policy(grace_s=grace_s)
        told = preempt.preempt({victim.pk: other.pk}, policy=policy, now=timezone.now())
    assert told == [victim.pk]


def waiting(lab: Lab) -> Job:
    """Something that somebody wants more."""
    return lab.submit("true", band="production", gpus_per_node="1")


def log_of(lab: Lab, job: Job, attempt: int) -> str:
    part = Allocation.objects.get(attempt__job=job, attempt__number=attempt, rank=0)
    return (lab.directory / part.node.name / "runs" / part.key / "log").read_text()


def outcomes(job: Job) -> list[str]:
    return list(job.attempts.order_by("number").values_list("outcome", flat=True))


def test_a_training_is_preempted_and_goes_on_where_it_was(lab: Lab) -> None:
    lab.node("n1", gpus=1)
    victim = lab.submit(
        f"exec {sys.executable} {TRAIN} --seconds 5 --epochs 10",
        band="best-effort", gpus_per_node="1",
    )  # fmt: skip
    lab.running(victim)
    lab.drive(lambda: "epoch   1/10" in log_of(lab, victim, 1))
    other = waiting(lab)
    make_room(victim, other)
    lab.end(other, victim)
    assert (other.state, victim.state) == ("COMPLETED", "COMPLETED")
    assert outcomes(victim) == ["PREEMPTED", "COMPLETED"]
    assert other.started_at <= victim.started_at
    first, second = (log_of(lab, victim, attempt) for attempt in (1, 2))
    assert "stopped by SIGTERM at step" in first
    step = int(first.rpartition("at step ")[2])
    saved = Checkpoint.objects.get(job=victim, step=step)
    assert victim.resume_from == saved.path
    assert f"continuing from {saved.path} at step {step}" in second
    assert second.endswith("finished\n")
    told = victim.attempts.get(number=1).detail
    assert told.startswith(f"Preempted by job {other.pk} (production) after ")
    assert told.endswith(f"It resumes from step {step}.")
    assert victim.preemptions == 1


def test_who_does_not_listen_is_killed_after_the_grace(lab: Lab) -> None:
    lab.node("n1", gpus=1)
    victim = lab.submit(
        '[ "$SLURM_RESTART_COUNT" = 1 ] && exit 0\n'
        "trap 'echo heard' TERM; echo ready; while true; do sleep 0.1; done",
        band="best-effort", gpus_per_node="1",
    )  # fmt: skip
    lab.running(victim)
    lab.drive(lambda: "ready" in log_of(lab, victim, 1))
    other = waiting(lab)
    make_room(victim, other, grace_s=1)
    lab.end(other, victim)
    assert outcomes(victim) == ["PREEMPTED", "COMPLETED"]
    part = Allocation.objects.get(attempt__job=victim, attempt__number=1)
    assert (part.cause, part.signal) == ("stopped", 9)
    told = lab.directory / "n1" / "runs" / part.key / "stop.json"
    why = f"makes room for job {other.pk} (production)"
    assert json.loads(told.read_text()) == {"signal": 15, "grace_s": 1, "why": why}
    assert f"[carrel] {why}: sending SIGTERM; killed after 1 s\n" in log_of(lab, victim, 1)
    assert "heard" in log_of(lab, victim, 1)
    assert "starts again from the beginning" in victim.attempts.get(number=1).detail


def test_a_gang_hears_its_own_signal_and_leaves_as_a_whole(lab: Lab) -> None:
    lab.node("n1", gpus=1)
    lab.node("n2", gpus=1)
    gate = lab.directory / "gate"
    victim = lab.submit(
        "#!/bin/bash\n#SBATCH --signal=USR1@60\n"
        '[ "$SLURM_RESTART_COUNT" = 1 ] && exit 0\n'
        f"""trap '[ $RANK = 1 ] && while [ ! -e {gate} ]; do sleep 0.05; done; exit 3' USR1\n"""
        "echo ready; while true; do sleep 0.1; done",
        band="best-effort", gpus_per_node="1", nodes="2",
    )  # fmt: skip
    lab.running(victim)
    parts = Allocation.objects.filter(attempt__job=victim, attempt__number=1)
    lab.drive(lambda: all(lab.log(victim, rank) == "ready\n" for rank in (0, 1)))
    other = waiting(lab)
    make_room(victim, other)
    lab.drive(lambda: parts.get(rank=0).phase == "ended")
    assert lab.fresh(victim).state == "COMPLETING"
    assert lab.fresh(other).state == "PENDING"
    gate.touch()
    lab.end(other, victim)
    assert outcomes(victim) == ["PREEMPTED", "COMPLETED"]
    assert set(parts.values_list("cause", "exit_code")) == {("stopped", 3)}
