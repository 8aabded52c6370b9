"""Forms about nodes."""

from __future__ import annotations

import re
from typing import Any

from django import forms

from portal.models import Node
from portal.queries import partitions

_LOGIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?\Z")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252}[A-Za-z0-9_])?\Z|[0-9A-Fa-f:.]+(%\w+)?\Z")
_BASTION = re.compile(r"(?P<login>[^@\s]+)@(?P<host>\[[^\]\s]+\]|[^@:\s]+)(:(?P<port>\d{1,5}))?\Z")
MOST_BASTIONS = 4


def check_host(host: str) -> str:
    """The host without brackets. Raises `ValidationError`."""
    plain = host.strip().removeprefix("[").removesuffix("]")
    if not _HOST.match(plain):
        raise forms.ValidationError(
            f"{host!r} is not a host; give a name such as gpu-1.example.org, or an address."
        )
    return plain


def check_login(login: str) -> str:
    """The account's name. Raises `ValidationError`."""
    if _LOGIN.match(login):
        return login
    if _LOGIN.match(f"_{login[1:]}"):
        raise forms.ValidationError(
            f"{login!r} is not an account; its first character should be a letter or '_'."
        )
    raise forms.ValidationError(
        f"{login!r} is not an account; use at most 32 letters, digits, '.', '_' and '-'."
    )


class AddNodeForm(forms.Form):
    """How to reach a machine that is to become a node."""

    host = forms.CharField(
        max_length=255, label="Host", help_text="Name or address, as this machine reaches it."
    )
    port = forms.IntegerField(min_value=1, max_value=65535, initial=22, label="SSH port")
    login = forms.CharField(
        max_length=64, label="Account", help_text="The Unix account there that jobs run as."
    )
    name = forms.CharField(
        max_length=64,
        required=False,
        label="Name in the lab",
        help_text="Empty: the host's name up to the first dot.",
        validators=Node._meta.get_field("name").validators[:1],
    )
    partition = forms.ModelChoiceField(
        partitions.for_nodes(),
        required=False,
        label="Partition",
    )
    bastions = forms.CharField(
        required=False,
        label="Bastions",
        widget=forms.Textarea(attrs={"rows": 2, "placeholder": "me@gate.example.org:22"}),
        help_text="Hosts to go through, in order, one a line, as account@host:port. "
        "Empty: the host is reached directly.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name_usual_partition()
        for field in self.fields.values():
            field.label_suffix = ""
            select = isinstance(field.widget, forms.Select)
            field.widget.attrs["class"] = "form-select" if select else "form-control"
            field.widget.attrs.setdefault("autocomplete", "off")
            field.widget.attrs["spellcheck"] = "false"

    def _name_usual_partition(self) -> None:
        field = self.fields["partition"]
        assert isinstance(field, forms.ModelChoiceField)
        field.empty_label = f"{partitions.usual_for_nodes()} (usual)"

    def clean_host(self) -> str:
        return check_host(self.cleaned_data["host"])

    def clean_login(self) -> str:
        return check_login(self.cleaned_data["login"])

    def clean_bastions(self) -> list[dict[str, Any]]:
        """[{host, port, user}], in the order they are gone through."""
        lines = [line.strip() for line in self.cleaned_data["bastions"].splitlines()]
        hops = [_hop(line) for line in lines if line]
        if len(hops) > MOST_BASTIONS:
            raise forms.ValidationError(f"At most {MOST_BASTIONS} bastions can be gone through.")
        return hops

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not data.get("name") and data.get("host") and "name" not in self.errors:
            data["name"] = _name_of(data["host"])
        if data.get("name") and Node.objects.filter(name=data["name"]).exists():
            self.add_error(
                "name", f"There is a node {data['name']} already; give this one another name."
            )
        return data


def _name_of(host: str) -> str:
    """The first label of a host's name; an address whole, with dots for colons."""
    if ":" in host or host.replace(".", "").isdigit():
        return host.partition("%")[0].replace(":", ".").strip(".")
    return host.partition(".")[0]


def _hop(line: str) -> dict[str, Any]:
    parts = _BASTION.match(line)
    if not parts or not 1 <= int(parts["port"] or 22) <= 65535:
        raise forms.ValidationError(
            f"{line!r} is not a bastion; write account@host or account@host:port."
        )
    return {
        "host": check_host(parts["host"]),
        "port": int(parts["port"] or 22),
        "user": check_login(parts["login"]),
    }


class DrainForm(forms.Form):
    """Why no more jobs should start on a node."""

    reason = forms.CharField(
        max_length=200,
        strip=True,
        label="Why",
        error_messages={"required": "Say why, so that others know when it comes back."},
        help_text="Everybody sees it, as in: new disks on Friday.",
        widget=forms.TextInput(attrs={"class": "form-control", "autocomplete": "off"}),
    )

    def full_clean(self) -> None:
        """The form is at the end of a long page: what is wrong there is brought into view."""
        super().full_clean()
        if self.errors:
            self.fields["reason"].widget.attrs["autofocus"] = True
