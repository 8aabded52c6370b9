"""The figures of several policies side by side, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from jobs.scheduler.simulate.measure import Figures

_COLUMNS: tuple[tuple[str, str, Callable[[Figures], str]], ...] = (
    ("mean", "wait s", lambda f: f"{f.mean_wait_s:,.1f}"),
    ("median", "wait s", lambda f: f"{f.median_wait_s:,.0f}"),
    ("p99", "wait s", lambda f: f"{f.p99_wait_s:,.0f}"),
    ("gangs", "wait s", lambda f: f"{f.mean_wait_gang_s:,.1f}"),
    ("mean", "compl. s", lambda f: f"{f.mean_completion_s:,.1f}"),
    ("median", "compl. s", lambda f: f"{f.median_completion_s:,.0f}"),
    ("p99", "compl. s", lambda f: f"{f.p99_completion_s:,.0f}"),
    ("alloc-", "ated", lambda f: f"{f.allocated_share:.1%}"),
    ("fair-", "ness", lambda f: f"{f.fairness:.3f}"),
    ("slowest", "project", lambda f: f"{f.slowest_project_speed:.3f}"),
    ("pre-", "empted", lambda f: f"{f.preemptions:,}"),
    ("lost", "GPU-h", lambda f: f"{f.lost_gpu_hours:,.1f}"),
    ("ms a", "pass", lambda f: f"{f.mean_pass_s * 1000:.2f}"),
)


def table(rows: Sequence[tuple[str, Figures]]) -> str:
    """A line for each policy."""
    cells = [["", *(top for top, _, _ in _COLUMNS)], ["policy", *(low for _, low, _ in _COLUMNS)]]
    cells += [[name, *(say(found) for _, _, say in _COLUMNS)] for name, found in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in cells
    )


def as_json(found: Figures) -> dict[str, Any]:
    """All figures by their names."""
    return asdict(found)
