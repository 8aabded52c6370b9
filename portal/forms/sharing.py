"""The form that divides the GPUs of a node among several jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms

from portal.forms.previewed import PreviewedForm, dress
from portal.models import Node
from portal.models.node import MAX_SHARDS
from portal.queries.sharing import Card


class SharingForm(PreviewedForm):
    """How, and into how many parts each GPU. Those divided into MIG instances are left as found."""

    sharing = forms.ChoiceField(
        required=False,
        choices=[("", "not at all"), *Node.Sharing.choices],
        label="Several jobs use a GPU",
        help_text="By time slices they take turns, and none is kept from the other's memory. With "
        "the Multi-Process Service they run at once, if it is started on the node.",
    )

    def __init__(self, *args: Any, node: Node, cards: Iterable[Card], **kwargs: Any) -> None:
        self.cards = {f"gpu_{card.gpu.index}": card for card in cards if not card.gpu.mig_mode}
        parts = {name: card.gpu.shards for name, card in self.cards.items()}
        super().__init__(*args, initial={"sharing": node.sharing} | parts, **kwargs)
        self.fields["sharing"].widget.attrs["data-wide"] = True
        if not self.cards:
            del self.fields["sharing"]
        for name, card in self.cards.items():
            self.fields[name] = forms.IntegerField(
                min_value=0,
                max_value=MAX_SHARDS,
                label=f"GPU {card.gpu.index}, parts",
                help_text=card.words,
            )
        dress(self)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if not data.get("sharing") and any(data.get(name) for name in self.cards):
            self.add_error("sharing", "Say how the parts are shared, or set all GPUs to 0 parts.")
        return data
