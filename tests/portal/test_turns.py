"""A node that hangs holds up one thread for each kind of work, and no news is lost by that."""

from __future__ import annotations

import threading

import pytest

from portal import turns


def test_who_comes_meanwhile_is_served_by_who_is_at_it() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), []

    def work() -> None:
        done.append(threading.get_ident())
        begun.set()
        assert go_on.wait(20)

    first = threading.Thread(target=turns.take, args=("look", 1, work), daemon=True)
    first.start()
    assert begun.wait(20)
    for _ in range(5):
        turns.take("look", 1, work)
    assert len(done) == 1
    go_on.set()
    first.join(20)
    assert done == [first.ident] * 2


def test_other_nodes_and_other_work_go_on() -> None:
    done: list[str] = []

    def work() -> None:
        turns.take("look", 2, lambda: done.append("another node"))
        turns.take("observe", 1, lambda: done.append("other work"))

    turns.take("look", 1, work)
    assert done == ["another node", "other work"]


def test_a_failure_lets_the_next_one_in() -> None:
    with pytest.raises(ZeroDivisionError):
        turns.take("look", 3, lambda: print(1 // 0))
    done: list[int] = []
    turns.take("look", 3, lambda: done.append(1))
    assert done == [1]
