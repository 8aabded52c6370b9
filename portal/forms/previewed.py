"""What forms have in common whose consequences are shown before they are saved."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db.models import Model, QuerySet

from portal.forms.standing import short


class PreviewedForm(forms.Form):
    """A form whose consequences are shown before it is saved."""

    previewed = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""

    @property
    def digest(self) -> str:
        """The same as long as the same is asked for."""
        names = [name for name in self.fields if name != "previewed"]
        whole = json.dumps([_plain(self.cleaned_data.get(name)) for name in names])
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def was_previewed(self) -> bool:
        """What is sent is what was shown."""
        return self.cleaned_data.get("previewed") == self.digest

    def refuse(self, errors: dict[str, list[str]]) -> None:
        """Put an action's errors at their fields."""
        for name, messages in errors.items():
            at = _FIELDS.get(name, name)
            for message in messages:
                self.add_error(at if at in self.fields else None, message)


_FIELDS = {"walltime_s": "walltime", "default_walltime_s": "default_walltime"}
"""Where what people type is in another unit than what is kept."""


def _plain(value: Any) -> str:
    """Of rows the ids: their words are cut short where many, and may be alike."""
    if isinstance(value, Model):
        return f"{value._meta.label} {value.pk}"
    if isinstance(value, QuerySet):
        return str(sorted(row.pk for row in value))
    return str(value)


def _plainly(validator: Any) -> Any:
    """Django would write bounds as 1000000000.0 and 1.1574074074074073e-05."""
    if isinstance(validator, MinValueValidator):
        return MinValueValidator(
            validator.limit_value, f"Give {short(validator.limit_value)} or more."
        )
    if isinstance(validator, MaxValueValidator):
        return MaxValueValidator(
            validator.limit_value, f"Give {short(validator.limit_value)} or less."
        )
    return validator


def dress(form: forms.Form) -> None:
    """Looks and speaks as all fields of the portal do."""
    for field in form.fields.values():
        field.validators = [_plainly(validator) for validator in field.validators]
        look = field.widget.attrs
        if isinstance(field.widget, forms.CheckboxInput | forms.RadioSelect):
            look["class"] = "form-check-input"
        elif isinstance(field.widget, forms.Select):
            look["class"] = "form-select"
        else:
            look |= {"class": "form-control", "autocomplete": "off", "spellcheck": "false"}
