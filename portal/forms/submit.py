"""The form for a new job. What its fields mean is read by `jobs.directives`, not here."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from jobs.bands import Band
from jobs.rules import MAX_SCRIPT_BYTES, SpecError
from jobs.scheduler.words import sentence
from portal.forms.spec_text import clock
from portal.models import User
from portal.queries import partitions, room

FIRST_SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=hello
#SBATCH --gres=gpu:1
#SBATCH --time=0:10:00

nvidia-smi
echo "Hello from $(hostname), job $CARREL_JOB_ID"
"""
"""What the empty form begins with."""

PLAIN = ("name", "project", "gpus_per_node", "shards", "walltime")
"""What nearly every job sets."""
MORE = (
    "partition", "band", "nodes", "max_switches", "gpu_model", "tasks_per_node", "cpus_per_task",
    "memory", "workdir", "environment", "array", "dependency", "begin", "held",
)  # fmt: skip
OVERRIDES = (*PLAIN, *MORE, "command")
"""Fields that win over the script's directives."""
RESOURCES = "resources"
"""The field of errors that concern what is asked for as a whole."""

_HELP = {
    "name": "What you will know it by.",
    "gpus_per_node": "On each node; 0 for none.",
    "shards": "On each node, of one GPU that others share, in place of whole ones.",
    "band": "Which jobs go first. Best-effort work needs no quota and makes room for all others.",
    "max_switches": "Its nodes hang on so many leaf switches at most.",
    "walltime": "4:00:00 is four hours, 2-12 two and a half days. Then the job is ended.",
    "nodes": "More than one starts the script on each, together.",
    "gpu_model": "As in a100; empty takes any.",
    "tasks_per_node": "How often the script is started on each node.",
    "cpus_per_task": "",
    "memory": "Per node, as in 64G. Empty sets no limit.",
    "workdir": "An absolute path on the node, or one that begins with ~/. "
    "Empty: the account's home.",
    "environment": "One NAME=VALUE a line.",
    "array": "One job per index: 0-9, or 1,3,5, or 0-99%4 for four at once.",
    "dependency": "Wait for other jobs: afterok:17, afterany:17:18, singleton.",
    "begin": "Not before: 2026-12-24T18:00, 20:00 or now+2hours.",
    "held": "Wait until you release it.",
    "command": "In place of a script.",
}
_LABELS = {
    "gpus_per_node": "GPUs per node",
    "gpu_model": "GPU model",
    "shards": "Parts of a GPU",
    "max_switches": "Switches at most",
    "cpus_per_task": "CPUs per task",
    "workdir": "Working directory",
    "environment": "Environment variables",
    "dependency": "Depends on",
    "begin": "Begin",
    "held": "Hold",
}
_DEFAULTS = {
    "name": "job", "gpus_per_node": "0", "nodes": "1", "gpu_model": "any",
    "shards": "0", "max_switches": "any", "tasks_per_node": "1",
    "cpus_per_task": "1", "memory": "no limit", "workdir": "~",
}  # fmt: skip
_WHOLE = ("gpus_per_node", "shards", "nodes", "max_switches", "tasks_per_node", "cpus_per_task")


class SubmitForm(forms.Form):
    """A job as typed. Empty fields leave the word to the script's #SBATCH lines."""

    script = forms.CharField(required=False, strip=False, widget=forms.Textarea)
    script_file = forms.FileField(
        required=False, label="Or a script file", help_text="Takes the place of the script above."
    )
    command = forms.CharField(required=False, strip=False, widget=forms.Textarea)
    nonce = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, user: User, checkpoints: Iterable[Any] = (), **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._owner = user.pk
        for name in (*PLAIN, *MORE):
            self.fields[name] = forms.CharField(required=False, strip=False)
        projects, places = room.choices(user=user)
        self._choose("project", projects)
        self._choose("partition", places)
        self._choose_band(user)
        if not room.offers_shards() and self._value("shards") in ("", "0"):
            del self.fields["shards"]
        self.fields["environment"].widget = forms.Textarea(attrs={"rows": 3})
        self.fields["command"].widget.attrs["rows"] = 2
        self.fields["held"].widget = forms.CheckboxInput(check_test=lambda value: value == "on")
        starts = [(str(row.pk), f"{row.name} on {row.node}") for row in checkpoints]
        self.fields["checkpoint"] = forms.ChoiceField(
            required=False, label="Go on from", choices=[("", "the start"), *starts]
        )
        self.initial.setdefault("nonce", secrets.token_urlsafe(16))
        self.resource_errors: list[str] = []
        self.line_errors: list[SpecError] = []
        for name, field in self.fields.items():
            _dress(name, field)
        self.fields["gpu_model"].widget.attrs["list"] = "gpu-models"
        usual_s = partitions.usual_walltime_s(self._value("partition"))
        self.fields["walltime"].widget.attrs["placeholder"] = clock(usual_s)

    def _value(self, name: str) -> str:
        return str((self.data if self.is_bound else self.initial).get(name) or "")

    def _choose_band(self, user: User) -> None:
        """Only where there is a choice."""
        allowed, usual = room.bands(user)
        value = self._value("band")
        if len(allowed) < 2 and not value:
            del self.fields["band"]
            return
        named = [(band.value, _band(band)) for band in allowed]
        unknown = [(value, value)] if value and value not in allowed else []
        default = f"{usual} (usual)" if usual else "the partition's usual"
        self.fields["band"].widget = forms.Select(choices=[("", default), *named, *unknown])

    def _choose(self, name: str, found: list[str]) -> None:
        """A list to choose from; what was typed or submitted before stays, known or not."""
        value = self._value(name)
        unknown = [value] if value and value not in found else []
        default = f"{found[0]} (usual)" if found else "none yet"
        self.fields[name].widget = forms.Select(
            choices=[
                ("", default),
                *((item, item) for item in found + unknown),
            ]
        )

    def clean_held(self) -> str:
        return "on" if self.data.get("held") == "on" else ""

    def clean_script_file(self) -> str:
        """The file's text."""
        file: UploadedFile[Any] | None = self.cleaned_data["script_file"]
        if not file:
            return ""
        if (file.size or 0) > MAX_SCRIPT_BYTES:
            raise forms.ValidationError(
                f"The file has {file.size:,} bytes; at most {MAX_SCRIPT_BYTES:,} are allowed."
            )
        try:
            text: str = file.read().decode()
        except UnicodeDecodeError as problem:
            raise forms.ValidationError(
                f"The file is no text in UTF-8: look at byte {problem.start:,}."
            ) from problem
        return text

    def clean(self) -> dict[str, Any]:
        """A file takes the script's place, and is shown there if the page comes back."""
        found = super().clean() or self.cleaned_data
        text = found.get("script_file")
        if text:
            found["script"] = text
            self.data = {**self.data.dict(), "script": text}  # type: ignore[attr-defined]
        elif _untouched(found.get("script")) and (found.get("command") or "").strip():
            found["script"] = ""
        return found

    @property
    def plain(self) -> list[forms.BoundField]:
        """What nearly every job sets."""
        return [self[name] for name in PLAIN if name in self.fields]

    @property
    def more(self) -> list[forms.BoundField]:
        """What is folded away."""
        return [self[name] for name in MORE if name in self.fields]

    @property
    def overrides(self) -> dict[str, str]:
        """The fields that were filled in, as typed."""
        found = ((name, str(self.cleaned_data.get(name) or "")) for name in OVERRIDES)
        return {name: text for name, text in found if text.strip()}

    @property
    def key(self) -> str | None:
        """The same for two clicks, another once anything was changed in between.

        None without the page's nonce, as a program may send the form: each time is meant.
        """
        if not self.cleaned_data.get("nonce"):
            return None
        kept = {name: self.cleaned_data.get(name) for name in ("nonce", "script", "checkpoint")}
        whole = json.dumps([self._owner, kept, self.overrides], sort_keys=True)
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()

    def refuse(self, errors: Iterable[SpecError]) -> None:
        """Put each error at its field: at the script with its line, or at the resources."""
        for error in errors:
            if error.line is not None:
                self.line_errors.append(error)
            elif error.field in self.fields:
                self.add_error(error.field, sentence(error.message))
            else:
                self.resource_errors.append(sentence(error.message))


def _untouched(script: str | None) -> bool:
    """The example as it was: whoever types a command does not want it."""
    return (script or "").replace("\r\n", "\n").strip() == FIRST_SCRIPT.strip()


def _band(band: Band) -> str:
    """`batch: ordinary work`, as much of its description as a list takes."""
    lead = band.description.partition(".")[0].partition(":")[0]
    return f"{band}: {lead[0].lower()}{lead[1:]}"


def _dress(name: str, field: forms.Field) -> None:
    field.label = _LABELS.get(name) or field.label or name.replace("_", " ").capitalize()
    field.help_text = field.help_text or _HELP.get(name, "")
    look = field.widget.attrs
    if isinstance(field.widget, forms.Select):
        look.setdefault("class", "form-select")
    elif isinstance(field.widget, forms.CheckboxInput):
        look.setdefault("class", "form-check-input")
    else:
        look.setdefault("class", "form-control")
    if name in _DEFAULTS:
        look.setdefault("placeholder", _DEFAULTS[name])
    if name in _WHOLE:
        look.setdefault("inputmode", "numeric")
    if isinstance(field.widget, (forms.TextInput, forms.Textarea)):
        look |= {"autocomplete": "off", "spellcheck": "false"}
