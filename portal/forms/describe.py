"""The form that says what no probe can find of a node."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.html import escape

from portal.forms.few_checkboxes import names
from portal.forms.previewed import PreviewedForm, dress
from portal.models import Node

LONGEST = 10_000


class DescribeForm(PreviewedForm):
    """Its features, and the switches that it hangs on."""

    features = forms.CharField(
        required=False, max_length=LONGEST,
        label="Features",
        help_text="A job that asks for some by <code>--constraint</code> starts only on nodes that "
        "have all of them. As in: infiniband, nvme. GPU models count by themselves.",
    )  # fmt: skip
    switches = forms.CharField(
        required=False, max_length=LONGEST,
        label="Switches above it, the nearest first",
        help_text="As in: leaf1, spine. Jobs of several nodes go where few leaf switches are "
        "enough, and <code>--switches</code> bounds how many. Empty: not known; then the node "
        "counts as far from all others.",
    )  # fmt: skip

    def __init__(self, *args: Any, node: Node, paths: list[str], **kwargs: Any) -> None:
        initial = {name: ", ".join(getattr(node, name)) for name in ("features", "switches")}
        super().__init__(*args, initial=initial, **kwargs)
        if paths:
            self.fields["switches"].help_text += f" Other nodes: {escape('; '.join(paths))}."
        for field in self.fields.values():
            field.widget.attrs["data-wide"] = True
        dress(self)

    def clean_features(self) -> list[str]:
        return names(self.cleaned_data["features"])

    def clean_switches(self) -> list[str]:
        return names(self.cleaned_data["switches"])

    @property
    def terms(self) -> dict[str, Any]:
        """As `describe` takes them."""
        return {name: self.cleaned_data[name] for name in ("features", "switches")}
