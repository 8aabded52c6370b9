"""Why an administrator holds somebody's jobs."""

from __future__ import annotations

from django import forms


class HoldForm(forms.Form):
    """For their owner to read."""

    why = forms.CharField(
        max_length=200,
        required=False,
        strip=True,
        label="Why",
        help_text="Everybody sees it, as in: asks for a data set that is away.",
        widget=forms.TextInput(attrs={"class": "form-control", "autocomplete": "off"}),
    )
