"""What a job came to, from how its parts ended."""

from __future__ import annotations

import pytest

from jobs.events import Cause
from jobs.lifecycle import Reason, State
from jobs.outcome import RunEnd, signal_name, verdict

WELL = RunEnd("n1", 10.0, Cause.EXITED, exit_code=0)
BAD = RunEnd("n2", 9.0, Cause.EXITED, exit_code=3)
KILLED = RunEnd("n3", 8.0, Cause.EXITED, signal=11)
STOPPED = RunEnd("n4", 11.0, Cause.STOPPED, exit_code=None, signal=15)
AWAY = "n5 could not be reached: no answer."


def test_all_well() -> None:
    assert verdict([WELL, WELL], cancelled_by=None).state is State.COMPLETED
    # Its end was quicker than the cancellation: nothing was cut short.
    assert verdict([WELL, WELL], cancelled_by="alice").state is State.COMPLETED


def test_the_first_to_go_wrong_decides() -> None:
    found = verdict([WELL, BAD, KILLED, STOPPED], cancelled_by=None)
    assert (found.state, found.reason, found.signal) == (State.FAILED, Reason.SIGNALED, 11)
    assert found.detail == "It was ended by SIGSEGV on n3."
    found = verdict([STOPPED, BAD], cancelled_by=None)
    assert (found.reason, found.exit_code) == (Reason.NON_ZERO_EXIT, 3)


@pytest.mark.parametrize(
    ("cause", "state"),
    [
        (Cause.WALLTIME, State.TIMEOUT),
        (Cause.MEMORY, State.OUT_OF_MEMORY),
        (Cause.LAUNCH_FAILED, State.FAILED),
        (Cause.NODE_RESTARTED, State.NODE_FAIL),
        (Cause.LOST, State.NODE_FAIL),
        (Cause.STOPPED, State.CANCELLED),
    ],
)
def test_each_cause_has_its_state_and_words(cause: Cause, state: State) -> None:
    found = verdict([RunEnd("n1", 1.0, cause, message="so it was")], cancelled_by=None)
    assert found.state is state
    assert found.detail.endswith((".", "so it was"))


def test_a_cancelled_job_is_cancelled_unless_it_had_failed_by_itself() -> None:
    found = verdict([WELL, STOPPED], cancelled_by="alice")
    assert (found.state, found.signal) == (State.CANCELLED, 15)
    assert verdict([STOPPED, BAD], cancelled_by="alice").state is State.FAILED
    lost = RunEnd("n1", 1.0, Cause.LOST)
    assert verdict([lost], cancelled_by="alice").state is State.CANCELLED


def test_a_gang_that_never_was_whole_is_no_success() -> None:
    for ends in ([WELL], [BAD], [WELL, STOPPED]):
        found = verdict(ends, cancelled_by=None, unstarted=["", AWAY])
        assert (found.state, found.reason) == (State.FAILED, Reason.LAUNCH_FAILURE)
        assert found.detail.startswith(AWAY)


def test_parts_called_off_leave_the_word_to_the_others() -> None:
    assert verdict([BAD], cancelled_by=None, unstarted=[""]).exit_code == 3
    assert verdict([WELL], cancelled_by="alice", unstarted=[""]).state is State.CANCELLED
    assert verdict([], cancelled_by="alice", unstarted=["", ""]).state is State.CANCELLED


def test_a_signal_without_a_name() -> None:
    assert (signal_name(9), signal_name(99)) == ("SIGKILL", "signal 99")


ROOM = "job 17 (production) after 3 h"


def test_who_was_stopped_to_make_room_is_preempted() -> None:
    found = verdict([STOPPED], cancelled_by=None, preempted_by=ROOM)
    assert (found.state, found.reason, found.signal) == (State.PREEMPTED, Reason.PREEMPTED, 15)
    assert found.detail == "Preempted by job 17 (production) after 3 h."
    # A part that had ended well does not make a whole of it.
    assert verdict([WELL, STOPPED], cancelled_by=None, preempted_by=ROOM).state is State.PREEMPTED


def test_who_ends_well_while_it_makes_room_is_completed() -> None:
    told = RunEnd("n1", 11.0, Cause.STOPPED, exit_code=0)
    for ends in ([told], [WELL, told]):
        found = verdict(ends, cancelled_by=None, preempted_by=ROOM)
        assert (found.state, found.exit_code) == (State.COMPLETED, 0)
        assert "job 17" in found.detail
    assert verdict([WELL], cancelled_by=None, preempted_by=ROOM).detail == ""
    assert verdict([told, STOPPED], cancelled_by=None, preempted_by=ROOM).state is State.PREEMPTED
    # Without anybody to make room for, it was stopped.
    assert verdict([told], cancelled_by="alice").state is State.CANCELLED


def test_what_went_wrong_before_it_made_room_keeps_its_own_name() -> None:
    memory = RunEnd("n1", 11.5, Cause.MEMORY, signal=9)
    assert verdict([BAD], cancelled_by=None, preempted_by=ROOM).exit_code == 3
    assert verdict([BAD, STOPPED], cancelled_by=None, preempted_by=ROOM).state is State.FAILED
    assert verdict([memory], cancelled_by=None, preempted_by=ROOM).state is State.OUT_OF_MEMORY
    late = RunEnd("n2", 12.0, Cause.EXITED, exit_code=1)
    assert verdict([late, STOPPED], cancelled_by=None, preempted_by=ROOM).state is State.PREEMPTED


def test_a_node_that_goes_while_it_makes_room_is_named() -> None:
    gone = RunEnd("n1", 11.0, Cause.NODE_RESTARTED)
    found = verdict([gone], cancelled_by=None, preempted_by=ROOM)
    assert found.state is State.PREEMPTED
    assert "n1 was restarted" in found.detail


def test_a_cancellation_wins_over_a_preemption() -> None:
    found = verdict([STOPPED], cancelled_by="alice", preempted_by=ROOM)
    assert (found.state, found.detail) == (State.CANCELLED, "Cancelled by alice.")
