"""Signs of sickness that `nvidia-smi` tells of; slower to ask than what every look asks."""

import re

from . import gpus, programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WITHIN_S = 10.0
"""A driver that is well answers within a second or two."""
MORE_S = 5.0
_CARDS = "index,uuid,pci.bus_id,temperature.gpu,ecc.errors.uncorrected.volatile.total"
_ROWS = "gpu_uuid,remapped_rows.pending,remapped_rows.failure"
_REASONS = ("clocks_event_reasons", "clocks_throttle_reasons")
"""What the reasons for lower clocks are called since R535, and were before."""
_GPU_LINE = re.compile(r"^GPU ([0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\.\d)\s*$")
_TEMPERATURE = re.compile(r"^\s+GPU (.+?)\s*:\s*(-?\d+) C\s*$")


def ask() -> "tuple[list[dict[str, Any]] | None, str]":
    """What is told of each card; None when the driver does not answer, and why.

    Empty without a word where there is no `nvidia-smi`. The rest is asked only of a driver that
    has answered: of one that hangs, each question may leave a process that cannot be killed.
    """
    path = programs.find("nvidia-smi")
    if path is None:
        return [], ""
    text, problem = programs.ask([path, "--query-gpu=" + _CARDS, gpus._FORMAT], WITHIN_S)
    if text is None:
        return None, problem
    cards = {cells[1]: _card(cells) for cells in gpus.rows(text, 5) if cells[1]}
    rows = programs.Program([path, "--query-remapped-rows=" + _ROWS, gpus._FORMAT], MORE_S)
    heat = programs.Program([path, "-q", "-d", "TEMPERATURE"], MORE_S)
    for cells in gpus.rows(rows.answer()[0] or "", 3):
        if cells[0] in cards:
            cards[cells[0]].update(rows_pending=_yes(cells[1]), rows_failed=_yes(cells[2]))
    margins = temperature_margins(heat.answer()[0] or "")
    slow = _slowed(path)
    for card in cards.values():
        card["margin_c"] = margins.get((card["pci_bus_id"] or "").lower())
        card.update(slow.get(card["uuid"], {}))
    return list(cards.values()), ""


def _card(cells: "list[str | None]") -> "dict[str, Any]":
    return {
        "index": gpus.whole(cells[0]),
        "uuid": cells[1],
        "pci_bus_id": cells[2],
        "temperature_c": gpus.whole(cells[3]),
        "ecc_uncorrected": gpus.whole(cells[4]),
    }


def _slowed(path: str) -> "dict[str | None, dict[str, bool | None]]":
    for name in _REASONS:
        fields = "uuid,%s.hw_slowdown,%s.hw_thermal_slowdown" % (name, name)
        text, _ = programs.ask([path, "--query-gpu=" + fields, gpus._FORMAT], MORE_S)
        found = gpus.rows(text or "", 3)
        if found:
            return {
                cells[0]: {"slowed": _yes(cells[1]), "slowed_by_heat": _yes(cells[2])}
                for cells in found
            }
    return {}


def _yes(cell: "str | None") -> "bool | None":
    return None if cell is None else cell.lower() in ("yes", "active", "true", "1")


def temperature_margins(text: str) -> "dict[str, int]":
    """From `nvidia-smi -q -d TEMPERATURE`: by bus id, how many degrees each GPU is from being
    slowed down. Newer cards tell their distance from a limit in place of the limit."""
    found: "dict[str, dict[str, int]]" = {}
    here: "dict[str, int]" = {}
    for line in text.splitlines():
        card, value = _GPU_LINE.match(line), _TEMPERATURE.match(line)
        if card:
            here = found.setdefault(card.group(1).lower(), {})
        elif value:
            here[value.group(1)] = int(value.group(2))
    margins = {}
    for bus, told in found.items():
        if "T.Limit Temp" in told:
            margins[bus] = told["T.Limit Temp"] - told.get("Slowdown T.Limit Temp", 0)
        elif "Current Temp" in told and "Slowdown Temp" in told:
            margins[bus] = told["Slowdown Temp"] - told["Current Temp"]
    return margins
