"""How the GPUs of one machine are joined, from the matrix of `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from itertools import takewhile

_GPU = re.compile(r"GPU(\d{1,4})\Z", re.ASCII)
_NVLINK = re.compile(r"NV\d+\Z", re.ASCII)


def nvlink_domains(matrix: str) -> dict[int, int]:
    """A number for each GPU by its index: who has the same reach each other over NVLink.

    A domain is a connected component of links; a GPU without any is alone in its own. They are
    numbered from 0 by their first GPU. What is no matrix has none.
    """
    columns, rows = _cells(matrix)
    domain: dict[int, int] = {index: index for index in columns if index in rows}
    for index, cells in rows.items():
        for other, cell in zip(columns, cells, strict=False):
            if _NVLINK.match(cell) and {index, other} <= domain.keys():
                _join(domain, domain[index], domain[other])
    numbers = {first: number for number, first in enumerate(sorted(set(domain.values())))}
    return {index: numbers[domain[index]] for index in sorted(domain)}


def _join(domain: dict[int, int], one: int, two: int) -> None:
    low, high = sorted((one, two))
    for index, first in domain.items():
        if first == high:
            domain[index] = low


def _cells(matrix: str) -> tuple[list[int], dict[int, list[str]]]:
    """The indices of the columns, and each row's cells by its index. Network cards come after."""
    columns: list[int] = []
    rows: dict[int, list[str]] = {}
    for line in matrix.splitlines():
        words = line.split()
        if not columns:
            columns = [int(word[3:]) for word in takewhile(_GPU.match, words)]
        elif words and (row := _GPU.match(words[0])):
            rows[int(row.group(1))] = words[1 : 1 + len(columns)]
    return columns, rows
