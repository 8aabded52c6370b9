"""Policies by name and from files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobs.scheduler.policy import Backfill, Order, Placing
from jobs.scheduler.simulate.lengths import Predicted, TrueLengths
from jobs.scheduler.simulate.policies import (
    NAMED,
    BestEffort,
    Known,
    PolicyError,
    Walls,
    find_policies,
    find_policy,
)


def file(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_by_name() -> None:
    for name, policy in NAMED.items():
        assert find_policy(name) is policy and policy.name == name
    assert isinstance(NAMED["easy"].start_lengths(), TrueLengths)
    assert isinstance(NAMED["carrel"].start_lengths(), Predicted)


def test_a_file_says_in_what_it_differs(tmp_path: Path) -> None:
    found = find_policy(
        file(
            tmp_path,
            """
            base = "easy"
            name = "patient"
            order = "priority"
            placing = "least-fragmentation"
            reservations = 5
            min_run_s = 90
            lengths = "predicted"
            walls = "lent"
            best_effort = "half-of-users"
            checkpoints = false

            [weights]
            age = 7
            """,
        )
    )
    base = NAMED["easy"].policy
    assert (found.name, found.lengths, found.walls) == ("patient", Known.PREDICTED, Walls.LENT)
    assert (found.best_effort, found.checkpoints) == (BestEffort.USERS, False)
    assert found.policy.order is Order.PRIORITY and found.policy.backfill is Backfill.EASY
    assert (found.policy.reservations, found.policy.min_run_s) == (5, 90)
    assert base.placing is Placing.BEST_FIT
    assert found.policy.placing is Placing.LEAST_FRAGMENTATION
    assert found.policy.weights.age == 7
    assert found.policy.weights.fair_share == base.weights.fair_share


def test_the_file_in_the_documentation_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "simulate.md").read_text()
    found = find_policy(file(tmp_path, page.partition("```toml\n")[2].partition("```")[0]))
    assert (found.name, found.policy.order, found.walls) == ("patient", "priority", "lent")
    assert found.policy.weights.age == 500
    for name in (*NAMED, *Known, *Walls, *Order, *Backfill, *Placing, *BestEffort):
        assert re.search(rf"\b{name}\b", page)


def test_an_empty_file_is_carrel_s_own(tmp_path: Path) -> None:
    found = find_policy(file(tmp_path, ""))
    assert found.name == "mine" and found.policy == NAMED["carrel"].policy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("reservation = 3", "unknown key 'reservation'; there are base, name, order, backfill, "),
        ("[weights]\nsise = 3", "unknown key 'weights.sise'; there are fair_share, age, "),
        ('base = "best"', "base must be one of fifo, sjf, qssf, easy, skip, carrel-default, "),
        ('order = "random"', "order must be one of priority, submission, "),
        ("walls = 3", "walls must be one of hard, lent, pool, not 3"),
        ("reservations = 0", "reservations must be a whole number from 1 to 1,000,000, not 0"),
        ("reservations = 2.5", "reservations must be a whole number from 1 to 1,000,000, not 2.5"),
        ("max_preemptions = 10000000", "max_preemptions must be a whole number from 0 to "),
        ("min_run_s = -1", "min_run_s must be a number from 0 to 2,592,000, not -1"),
        ("min_run_s = true", "min_run_s must be a number from 0 to 2,592,000, not True"),
        (f"min_run_s = {'9' * 4000}", "min_run_s must be a number from 0 to 2,592,000, not 9999"),
        ("min_run_s = nan", "min_run_s must be a number from 0 to 2,592,000, not nan"),
        ("min_run_s = 1e7", "min_run_s must be a number from 0 to 2,592,000, not 10000000.0"),
        ('best_effort = "mine"', "best_effort must be one of none, half-of-jobs, half-of-users, "),
        ("checkpoints = 1", "checkpoints must be true or false, not 1"),
        ("weights = 3", "weights must be a table"),
        ("[weights]\nage = -3", "weights.age: a weight must be from 0 to 1e9 points, not -3"),
        ('[weights]\nage = "much"', "weights.age must be a number, not 'much'"),
        ("[weights]\nage = true", "weights.age must be a number, not True"),
        ("[weights]\nmax_age_s = 0", "weights.max_age_s: the age that counts must be above 0 "),
        ("name = 'a\tb'", "name must be a word, not 'a\\tb'"),
        ('name = ""', "name must be a word, not ''"),
        ("order: x", "is no TOML: "),
        ("name = " + "[" * 5000, "is no TOML: "),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, said: str) -> None:
    name = file(tmp_path, text)
    with pytest.raises(PolicyError) as told:
        find_policy(name)
    assert str(told.value).removeprefix(name).lstrip(": ").startswith(said)


def test_what_is_neither_a_name_nor_a_file(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no policy 'fif': there are fifo, sjf, qssf, easy, "):
        find_policy("fif")
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        find_policy(str(tmp_path / "none.toml"))


def test_each_of_several_has_a_name_of_its_own(tmp_path: Path) -> None:
    mine = file(tmp_path, "")
    assert [one.name for one in find_policies(["fifo", mine])] == ["fifo", "mine"]
    named = file(tmp_path, 'name = "fifo"')
    with pytest.raises(PolicyError, match="two policies are called 'fifo'"):
        find_policies(["fifo", named])
