"""A job's states, the reasons it waits or ended, and the legal transitions: one table.

The words are Slurm's, so that nobody has to learn new ones.
"""

from __future__ import annotations

from enum import StrEnum

WALLTIME_GRACE_S = 30
"""At the end of its walltime a job gets SIGTERM, and so much later SIGKILL."""


class State(StrEnum):
    """Where a job is in its life."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAIL = "NODE_FAIL"
    DEADLINE = "DEADLINE"
    PREEMPTED = "PREEMPTED"


class Reason(StrEnum):
    """Why a job is in the state it is in. While PENDING: what it waits for."""

    NONE = ""
    # waiting
    RESOURCES = "Resources"
    PRIORITY = "Priority"
    BEGIN_TIME = "BeginTime"
    DEPENDENCY = "Dependency"
    DEPENDENCY_NEVER = "DependencyNeverSatisfied"
    ARRAY_LIMIT = "JobArrayTaskLimit"
    RESERVATION = "Reservation"
    QUOTA_GPUS = "AssocGrpGRES"
    QUOTA_USER_GPUS = "AssocMaxGRESPerUser"
    QUOTA_GPU_HOURS = "AssocGrpGRESMinutes"
    QUOTA_JOBS = "AssocGrpJobsLimit"
    QUOTA_USER_JOBS = "AssocMaxJobsLimit"
    HELD_USER = "JobHeldUser"
    HELD_ADMIN = "JobHeldAdmin"
    HELD_LAUNCH = "JobHeldLaunchFailure"
    HELD_REQUEUE = "JobHoldMaxRequeue"
    NODE_DOWN = "ReqNodeNotAvail"
    PARTITION_DOWN = "PartitionDown"
    BAD_CONSTRAINTS = "BadConstraints"
    CLEANING = "Cleaning"
    PREEMPTED = "Preempted"
    """Also while it makes room, and when it ended so."""
    # ended
    NON_ZERO_EXIT = "NonZeroExitCode"
    SIGNALED = "RaisedSignal"
    CANCELLED_BY_USER = "CancelledByUser"
    TIME_LIMIT = "TimeLimit"
    OUT_OF_MEMORY = "OutOfMemory"
    NODE_RESTARTED = "NodeRestarted"
    RUN_LOST = "RunLost"
    NODE_LOST = "NodeDown"
    LAUNCH_FAILURE = "JobLaunchFailure"
    DEADLINE = "DeadLine"


WAITING = frozenset({State.PENDING})
ACTIVE = frozenset({State.CONFIGURING, State.RUNNING, State.COMPLETING})
"""Holds leases on GPUs."""
ENDED = frozenset(State) - WAITING - ACTIVE

_ENDINGS = frozenset(ENDED)
HELD = frozenset({Reason.HELD_USER, Reason.HELD_ADMIN, Reason.HELD_LAUNCH, Reason.HELD_REQUEUE})
"""It does not start before somebody releases it."""

NO_TURN = HELD | {
    Reason.BEGIN_TIME,
    Reason.DEPENDENCY,
    Reason.DEPENDENCY_NEVER,
    Reason.ARRAY_LIMIT,
    Reason.NODE_DOWN,
    Reason.PARTITION_DOWN,
    Reason.BAD_CONSTRAINTS,
}
"""It waits for something else than its turn, and has no place in the queue."""

TRANSITIONS: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.CONFIGURING, State.CANCELLED, State.DEADLINE}),
    # Back to PENDING when nothing was started: the node could not be reached, say.
    State.CONFIGURING: frozenset({State.PENDING, State.RUNNING, State.COMPLETING}) | _ENDINGS,
    # Back to PENDING when its node was lost.
    State.RUNNING: frozenset({State.PENDING, State.COMPLETING}) | _ENDINGS,
    # The leases are held until every process is known to be gone. Back to PENDING when a gang
    # could not be started on all of its nodes, made room for another job or lost a node.
    State.COMPLETING: frozenset({State.PENDING}) | _ENDINGS,
    **{state: frozenset() for state in ENDED},
}


class IllegalTransition(ValueError):
    """A move that the table does not have; a defect in the caller."""


def check(old: State, new: State) -> None:
    """Raise `IllegalTransition` unless `old` may become `new`."""
    if new not in TRANSITIONS[old]:
        raise IllegalTransition(f"a job may not go from {old} to {new}")
