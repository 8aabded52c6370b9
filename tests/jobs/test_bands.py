"""Bands have an order, and each says what it is for."""

from __future__ import annotations

from jobs.bands import Band


def test_the_higher_band_has_the_higher_rank() -> None:
    ranks = {band.value: band.rank for band in Band}
    assert ranks == {"monitoring": 3, "production": 2, "batch": 1, "best-effort": 0}


def test_each_band_says_in_whole_sentences_what_belongs_there() -> None:
    descriptions = [band.description for band in Band]
    assert len(set(descriptions)) == len(Band)
    assert all(text[0].isupper() and text.endswith(".") for text in descriptions)
