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


def test_one_that_says_what_is_not_known_is_refused() -> None:
    with pytest.raises(SpecError, match="wings"):
        specs.read([json.dumps({"name": "train", "resources": {}, "wings": 2})])
