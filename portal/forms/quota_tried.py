"""The fields for what is tried of one quota."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from django import forms

from jobs.bands import Band
from jobs.directives.formats import UNLIMITED
from jobs.scheduler.limits import Scope
from jobs.scheduler.simulate.quota_change import NAMES, QuotaChange
from portal.forms.previewed import dress
from portal.forms.projects import MONTH, ROLLING, QuotaForm

NO_LIMIT = "none"
ALL = "*"
AS_IT_IS = "as it is"
_NO_LIMIT = {NO_LIMIT, *UNLIMITED} - {"0", "-1"}
"""A quota of 0 allows nothing."""
WHOSE = ("project", "scope", "band")
NUMBERS = ("gpus", "jobs_running", "walltime", "gpu_hours")
MORE = ("period", "period_days", *NAMES)
_COUNTED = ("gpus", "jobs_running", "gpu_hours")


class OrNone(forms.CharField):
    """What another field takes, or a word for no limit. Empty: as it is."""

    def __init__(self, field: forms.Field) -> None:
        super().__init__(required=False, max_length=40, label=field.label)
        self.widget.attrs["placeholder"] = AS_IT_IS
        self._field = field

    def clean(self, value: str | None) -> Any:
        """Raises `ValidationError`."""
        text = super().clean(value)
        if text.lower() in _NO_LIMIT:
            return NO_LIMIT
        try:
            return self._field.clean(text)
        except forms.ValidationError as error:
            said = " ".join(error.messages)
            raise forms.ValidationError(f"{said} For no limit say {NO_LIMIT}.") from error


class QuotaRow(forms.Form):
    """One quota of a project. What is left empty stays as it is."""

    project = forms.ChoiceField(required=False)
    scope = forms.ChoiceField(
        label="For",
        required=False,
        initial=Scope.PROJECT,
        choices=[(Scope.PROJECT, "all its users together"), (Scope.USER, "each user in it")],
    )
    band = forms.ChoiceField(
        required=False, choices=[("", "all but best-effort"), *((one, one) for one in Band)]
    )

    def __init__(
        self, *args: Any, projects: dict[str, int], limits: QuotaForm, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        self._projects = projects
        chooser = self.fields["project"]
        assert isinstance(chooser, forms.ChoiceField)
        chooser.choices = [("", "none"), *((name, name) for name in projects)]
        for name in NUMBERS:
            self.fields[name] = OrNone(limits.fields[name])
        for name in MORE:
            self.fields[name] = deepcopy(limits.fields[name])
        self._may_stay()
        dress(self)

    def _may_stay(self) -> None:
        for name, first in (("period", ("", AS_IT_IS)), *((name, (ALL, "all")) for name in NAMES)):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [first, *field.choices]  # type: ignore[misc]
        for name in NAMES:
            self.fields[name].help_text = f"None chosen: {AS_IT_IS}."
        self.fields["period"].label = "GPU-hours used in"
        self.fields["period_days"].help_text = "Of the last days."

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if self._given and not data.get("project") and "project" not in self.errors:
            self.add_error("project", "Say which project.")
        if data.get("band") == Band.BEST_EFFORT:
            for name in _COUNTED:
                if data.get(name) not in (None, NO_LIMIT):
                    self.add_error(name, "What runs in best-effort counts against no quota.")
        rolling, days = data.get("period") == ROLLING, data.get("period_days")
        if rolling and days is None and "period_days" not in self.errors:
            self.add_error("period_days", "Say how many days.")
        if days is not None and not rolling:
            self.add_error("period", "Only the last days are so many.")
        for name in NAMES:
            if ALL in data.get(name, ()) and len(data[name]) > 1:
                self.add_error(name, "Choose all, or some of them.")
        return data

    @property
    def whose(self) -> Iterator[forms.BoundField]:
        """The fields that say which quota it is."""
        return map(self.__getitem__, WHOSE)

    @property
    def numbers(self) -> Iterator[forms.BoundField]:
        """Those for what is tried most."""
        return map(self.__getitem__, NUMBERS)

    @property
    def more(self) -> Iterator[forms.BoundField]:
        """The rest of them."""
        return map(self.__getitem__, MORE)

    @property
    def is_used(self) -> bool:
        """Something was filled in."""
        return self.is_bound and self.has_changed()

    @property
    def is_more_used(self) -> bool:
        """Something of the rest was."""
        return self.is_bound and not {*MORE}.isdisjoint({*self.changed_data, *self.errors})

    @property
    def change(self) -> QuotaChange | None:
        """None for a row that was left empty."""
        data = self.cleaned_data
        if not data.get("project"):
            return None
        given = {name: data[name] for name in ("gpus", "jobs_running", "gpu_hours")}
        given |= {"walltime_s": data["walltime"]}
        given |= {name: tuple(data[name]) or None for name in NAMES}
        lifted = tuple(name for name, value in given.items() if value in (NO_LIMIT, (ALL,)))
        return QuotaChange(
            self._projects[data["project"]], Scope(data["scope"] or Scope.PROJECT),
            Band(data["band"]) if data["band"] else None, lifted=lifted,
            period_days=0 if data["period"] == MONTH else data["period_days"],
            **{name: value for name, value in given.items() if name not in lifted},
        )  # fmt: skip

    @property
    def _given(self) -> bool:
        names = (*NUMBERS, *MORE)
        return any(self.cleaned_data.get(name) not in (None, "", []) for name in names)
