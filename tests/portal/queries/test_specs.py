"""Specifications as each process keeps them."""

from __future__ import annotations

import json

import pytest

from jobs.rules import SpecError
from portal.queries import specs


def stored(name: str, gpus: int) -> str:
    return json.dumps({"name": name, "resources": {"gpus_per_node": gpus}})


def test_they_are_told_apart_by_what_they_say() -> None:
    first, second = specs.read([stored("train", 1), stored("train", 2)])
    assert (first.resources.gpus, second.resources.gpus) == (1, 2)


def test_what_has_been_read_is_not_read_again() -> None:
    (first,) = specs.read([stored("train", 3)])
    again = specs.read([stored("train", 3), stored("train", 3)])
    assert [spec is first for spec in again] == [True, True]


def test_only_those_asked_for_last_are_kept() -> None:
    (first,) = specs.read([stored("train", 4)])
    specs.read([stored("other", 4)])
    (again,) = specs.read([stored("train", 4)])
    assert again == first
    assert again is not first


ODD = [
    json.dumps({"name": "train", "resources": {}, "wings": 2}),
    json.dumps({"name": "train", "resources": {"gpus_per_node": -1}}),
    json.dumps({"name": "train", "resources": {"gpu_model": 7}}),
    "[1]",
    "null",
    "{",
]


@pytest.mark.parametrize("odd", ODD)
def test_one_that_cannot_be_read_is_told_once_and_lets_others_pass(
    odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        first, second, third = specs.read([stored("train", 1), odd, stored("train", 2)])
        assert (first.resources.gpus, third.resources.gpus) == (1, 2)
        assert isinstance(second, SpecError)
    assert len(caplog.records) == 1
    specs.read([])


def test_a_variable_that_carrel_sets_by_now_is_left_out() -> None:
    pairs = [["CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps"], ["SEED", "7"]]
    (spec,) = specs.read([json.dumps({"name": "train", "environment": pairs})])
    assert spec.environment == (("SEED", "7"),)
