"""The field for a limit on walltimes."""

from __future__ import annotations

from django import forms

from jobs.directives.formats import UNLIMITED, walltime
from jobs.scheduler.words import sentence, span


class WalltimeField(forms.CharField):
    """A walltime as Slurm writes it, in seconds; None where it is left empty."""

    def __init__(self, *, least_s: int = 1, label: str, help_text: str) -> None:
        super().__init__(required=False, label=label, help_text=help_text)
        self._least_s = least_s

    def clean(self, value: str | None) -> int | None:
        """Raises `ValidationError` for what is no walltime, or too short."""
        text = super().clean(value)
        if not text:
            return None
        if text.lower() in UNLIMITED:
            raise forms.ValidationError("Leave it empty, or give a time, as in 1-00:00:00.")
        try:
            found = walltime(text)
        except ValueError as error:
            raise forms.ValidationError(sentence(str(error))) from error
        if found < self._least_s:
            raise forms.ValidationError(f"Give {span(self._least_s)} or more, as in 0:10:00.")
        return found
