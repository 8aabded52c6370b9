"""The form of what an admin sets for the jobs of a partition."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from django import forms

from jobs.bands import Band
from jobs.scheduler.priority import PriorityWeights
from portal.forms.previewed import PreviewedForm, dress
from portal.forms.spec_text import clock
from portal.forms.standing import DAY_S, days, plain, seconds, tell_standing
from portal.forms.walltime import WalltimeField
from portal.models import Partition

LEAST_S = 60
MOST_POINTS = 1e9
MOST_DAYS = 3650


def _points(label: str, help_text: str) -> forms.FloatField:
    return forms.FloatField(min_value=0, max_value=MOST_POINTS, label=label, help_text=help_text)


class PartitionForm(PreviewedForm):
    """Bands, walltimes and weights of priority."""

    default_band = forms.ChoiceField(
        choices=[(band.value, band.value) for band in Band],
        label="Usual band",
        help_text="Of jobs that name none.",
    )
    default_walltime = WalltimeField(
        least_s=LEAST_S, label="Usual walltime",
        help_text="Of jobs that give none; 4:00:00 is four hours. Empty: an hour, or the longest "
        "where that is less.",
    )  # fmt: skip
    max_walltime = WalltimeField(
        least_s=LEAST_S, label="Longest walltime",
        help_text="Who asks for more is refused at submission; 2-12 is two and a half days. "
        "Empty: no limit.",
    )  # fmt: skip
    allowed_bands = forms.MultipleChoiceField(
        required=False,
        choices=[(band.value, band.value) for band in Band],
        widget=forms.CheckboxSelectMultiple,
        label="Bands that may run here",
        help_text="Who asks for another is refused at submission. None chosen: all, but monitoring "
        "for administrators only; choose it to allow it to everybody here.",
    )
    fair_share = _points("Points for fair share", "For who has had least of their share.")
    age = _points("Points for age", "For who has waited for as long as counts.")
    max_age = forms.FloatField(
        min_value=1 / DAY_S, max_value=MOST_DAYS, label="Age that counts, in days",
        help_text="Waiting any longer brings no more points.",
    )  # fmt: skip
    size = _points("Points for size", "For who asks for all GPUs of the partition.")
    nice = _points("Points for nice", "For who an admin moves forward as far as possible.")

    def __init__(self, *args: Any, row: Partition, **kwargs: Any) -> None:
        initial, usual = _initial(row), _initial(Partition())
        super().__init__(*args, initial=initial, **kwargs)
        for name in initial:
            tell_standing(self, name, _told(name, initial), _told(name, usual))
        dress(self)

    @property
    def terms(self) -> dict[str, Any]:
        """As `set_terms` takes them."""
        data = self.cleaned_data
        given = {name: data[name] for name in ("fair_share", "age", "size", "nice")}
        given["max_age_s"] = seconds(data["max_age"], DAY_S)
        usual = {field.name: field.default for field in fields(PriorityWeights)}
        allowed = [band.value for band in Band if band in data["allowed_bands"]]
        return {
            "default_band": data["default_band"],
            "allowed_bands": allowed or None,
            "default_walltime_s": data["default_walltime"],
            "max_walltime_s": data["max_walltime"],
            "priority_weights": {
                name: value for name, value in given.items() if value != usual[name]
            },
        }


def _initial(row: Partition) -> dict[str, Any]:
    weights = row.weights
    return {
        "default_band": row.default_band,
        "allowed_bands": row.allowed_bands or [],
        "default_walltime": clock(row.default_walltime_s) if row.default_walltime_s else "",
        "max_walltime": clock(row.max_walltime_s) if row.max_walltime_s else "",
        "fair_share": plain(weights.fair_share),
        "age": plain(weights.age),
        "max_age": days(weights.max_age_s),
        "size": plain(weights.size),
        "nice": plain(weights.nice),
    }


def _told(name: str, initial: dict[str, Any]) -> Any:
    empty = {"allowed_bands": "all", "default_walltime": "none", "max_walltime": "no limit"}
    return initial[name] or empty.get(name, initial[name])
