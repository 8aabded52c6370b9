"""The form that sets nodes aside."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils import timezone

from portal.forms.few_checkboxes import FewCheckboxes
from portal.forms.previewed import PreviewedForm, dress
from portal.models import Node, Project, Reservation, User

_FORMAT = "%Y-%m-%dT%H:%M"


def _moment(label: str) -> forms.DateTimeField:
    return forms.DateTimeField(
        label=label,
        input_formats=[_FORMAT, "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S"],
        widget=forms.DateTimeInput(format=_FORMAT, attrs={"type": "datetime-local"}),
        error_messages={"invalid": "Give a day and a time, as in 2026-11-03 18:00."},
    )


class ReservationForm(PreviewedForm):
    """Which nodes, from when to when, and for whom."""

    name = forms.CharField(max_length=64, help_text="As in: new disks.")
    reason = forms.CharField(max_length=200, required=False, help_text="Everybody sees it.")
    starts_at = _moment("Begins")
    ends_at = _moment("Ends")
    nodes = forms.ModelMultipleChoiceField(
        Node.objects.none(), to_field_name="name", widget=FewCheckboxes
    )
    projects = forms.ModelMultipleChoiceField(
        Project.objects.none(),
        to_field_name="name",
        required=False,
        widget=FewCheckboxes,
        help_text="Only jobs of these, and of all projects below them, run there then. Without any "
        "project or user none does: that is maintenance.",
    )
    users = forms.ModelMultipleChoiceField(
        User.objects.none(),
        to_field_name="username",
        required=False,
        widget=FewCheckboxes,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone = timezone.get_default_timezone_name()
        self._choose("nodes", Node.objects.order_by("name"))
        self._choose("projects", Project.objects.filter(archived_at=None).order_by("name"))
        self._choose("users", User.objects.filter(is_active=True).order_by("username"))
        for name in ("starts_at", "ends_at"):
            self.fields[name].help_text = f"In the lab's time zone, {zone}."
        dress(self)

    def _choose(self, name: str, rows: Any) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ModelMultipleChoiceField)
        field.queryset = rows


def reservation_initial(row: Reservation) -> dict[str, Any]:
    """The form as a reservation is."""
    return {
        "name": row.name,
        "reason": row.reason,
        "starts_at": timezone.localtime(row.starts_at),
        "ends_at": timezone.localtime(row.ends_at),
        "nodes": [node.name for node in row.nodes.all()],
        "projects": [project.name for project in row.projects.all()],
        "users": [user.username for user in row.users.all()],
    }
