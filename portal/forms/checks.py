"""The form that says what must be so on a node for it to count as well."""

from __future__ import annotations

from typing import Any

from django import forms

from portal.forms.previewed import dress
from portal.models import Node

LONGEST = 10_000


class ChecksForm(forms.Form):
    """Its required mounts, and a program of the administrators."""

    mounts = forms.CharField(
        required=False, max_length=LONGEST,
        label="Required mounts", widget=forms.Textarea(attrs={"rows": 3}),
        help_text="One a line, as in /home. While nothing is mounted there, the node is drained.",
    )  # fmt: skip
    check_program = forms.CharField(
        required=False, max_length=LONGEST,
        label="Check program",
        help_text="A path on the node, as in /usr/local/sbin/check-node. It is run once a minute "
        "as the account that jobs run as, for half a minute at most. Exit code 0 says that the "
        "node is well; otherwise it is drained, and the last line that was printed says why.",
    )  # fmt: skip

    guards_gpus = forms.BooleanField(
        required=False,
        label="Start no job on a GPU that a process of no job uses",
        help_text="One with more than 1 GiB of its memory. The job waits or goes elsewhere, and "
        "the GPU gets none until the process is gone. Otherwise it is only told.",
    )

    def __init__(self, *args: Any, node: Node, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial = {
            "mounts": "\n".join(node.mounts),
            "check_program": node.check_program,
            "guards_gpus": node.guards_gpus,
        }
        self.label_suffix = ""
        dress(self)

    def clean_mounts(self) -> list[str]:
        lines = (line.strip() for line in self.cleaned_data["mounts"].splitlines())
        return [line for line in lines if line]
