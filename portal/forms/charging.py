"""The form of what is charged, and how what was charged fades."""

from __future__ import annotations

import hashlib
from typing import Any

from django import forms

from portal.forms.previewed import PreviewedForm, dress
from portal.forms.standing import DAY_S, days, plain, seconds, tell_standing
from portal.models import Accounting, Gpu, GpuModel

MOST_WEIGHT = 1e6
MOST_DAYS = 3650
_WEIGHTS = ("gpu_weight", "cpu_weight", "memory_gib_weight")


def _weight(label: str, help_text: str, *, required: bool = True) -> forms.FloatField:
    return forms.FloatField(
        min_value=0, max_value=MOST_WEIGHT, required=required, label=label, help_text=help_text
    )


class ChargingForm(PreviewedForm):
    """Weights, the half-life and the entry penalty. One field for each model of GPU there is."""

    gpu_weight = _weight("A GPU", "Of a model without a weight of its own.")
    cpu_weight = _weight("A CPU", "Of a job's CPUs and memory only the dearer counts.")
    memory_gib_weight = _weight("A GiB of memory", "Counts where it is dearer than the CPUs.")
    half_life = forms.FloatField(
        min_value=60 / DAY_S, max_value=MOST_DAYS, label="Half-life, in days",
        help_text="After so long half of what was used still counts in fair share.",
    )  # fmt: skip
    entry_penalty = forms.FloatField(
        min_value=0, max_value=100, label="Entry penalty, in percent",
        help_text="The part of its walltime that a job counts as having used from its start on.",
    )  # fmt: skip

    def __init__(self, *args: Any, row: Accounting, **kwargs: Any) -> None:
        known = dict(GpuModel.objects.values_list("name", "weight"))
        self.models = {_field(model): model for model in sorted(known.keys() | _there())}
        own = {name: plain(known.get(model)) for name, model in self.models.items()}
        initial, usual = _initial(row), _initial(Accounting())
        super().__init__(*args, initial=initial | own, **kwargs)
        for name, model in self.models.items():
            self.fields[name] = _weight(model, "Empty: as any GPU.", required=False)
            tell_standing(self, name, own[name] or "empty", "empty")
        for name in initial:
            tell_standing(self, name, float(initial[name]), float(usual[name]))
        self.order_fields([*_WEIGHTS[:1], *self.models, *_WEIGHTS[1:]])
        dress(self)

    @property
    def terms(self) -> dict[str, Any]:
        """As `set_terms` takes them."""
        data = self.cleaned_data
        found = {name: data[name] for name in _WEIGHTS}
        found["half_life_s"] = seconds(data["half_life"], DAY_S)
        # No division by a hundred is exact; nobody means less than a millionth of a percent.
        found["entry_penalty"] = round(data["entry_penalty"] / 100, 8)
        return found

    @property
    def weights(self) -> dict[str, float | None]:
        """By model of GPU; None: as any."""
        return {model: self.cleaned_data[name] for name, model in self.models.items()}


def _there() -> set[str]:
    return set(Gpu.objects.order_by().values_list("model", flat=True).distinct())


def _field(model: str) -> str:
    """Of the form: models are called as their makers like, names of fields are not."""
    return f"model_{hashlib.sha256(model.encode()).hexdigest()[:12]}"


def _initial(row: Accounting) -> dict[str, str]:
    found = {name: plain(getattr(row, name)) for name in _WEIGHTS}
    percent = plain(round(100 * row.entry_penalty, 6))
    return found | {"half_life": days(row.half_life_s), "entry_penalty": percent}
