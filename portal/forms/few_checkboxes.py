"""A choice of several among any number."""

from __future__ import annotations

import re
from typing import Any

from django import forms

MOST = 50
"""Boxes beside each other; where there would be more, people type names."""
LONGEST = 20_000
"""Characters that are read of those names: they become parameters of one query."""


class FewCheckboxes(forms.CheckboxSelectMultiple):
    """Check boxes for all there are; where these are many, for the chosen ones alone, and the
    others are given by their names, which have neither spaces nor commas."""

    @property
    def by_name(self) -> int:
        """How many there are of which only the chosen ones have a box; 0 where all have one."""
        number = len(self.choices)  # type: ignore[arg-type]
        return number if number > MOST else 0

    def optgroups(self, name: str, value: list[str], attrs: Any = None) -> Any:
        """As Django has them, one for each box."""
        groups = super().optgroups(name, value, attrs)
        if not self.by_name:
            return groups
        return [group for group in groups if any(option["selected"] for option in group[1])]

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[str]:
        """Those whose boxes are ticked, and those named."""
        ticked = super().value_from_datadict(data, files, name) or []
        text = data.get(f"{name}_named", "")[:LONGEST].replace("\0", " ")
        return [*ticked, *names(text)]


def names(text: str) -> list[str]:
    """Separated by commas or spaces."""
    return [name for name in re.split(r"[\s,]+", text) if name]
