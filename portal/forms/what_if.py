"""The form that asks what a change would have done."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django import forms

from jobs.scheduler.fairshare import MAX_SHARES
from jobs.scheduler.policy import Backfill, Order
from jobs.scheduler.simulate.changes import MOST_NODES, Changes, NodesChange, ProjectChange, kinds
from portal.forms.previewed import dress
from portal.forms.projects import QuotaForm
from portal.forms.quota_tried import AS_IT_IS, WHOSE, QuotaRow
from portal.models import Project, SchedulingPolicy
from portal.queries import machines
from portal.queries.spans import Span

PERIODS = (
    ("30d", "the last 30 days"),
    ("7d", "the last 7 days"),
    ("last-month", "the last calendar month"),
    ("month", "this month until now"),
)
_YES_OR_NO = (("", AS_IT_IS), ("yes", "yes"), ("no", "no"))
MOST_RESERVATIONS = 1000


class WhatIfForm(forms.Form):
    """Which time, and what is changed for the whole lab."""

    period = forms.ChoiceField(choices=PERIODS, label="The jobs of")
    order = forms.ChoiceField(required=False, label="Who goes first within a band")
    backfill = forms.ChoiceField(required=False, label="Who may pass a job that waits")
    reservations = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_RESERVATIONS,
        label="Waiting jobs promised a time",
    )
    lends_at_top = forms.ChoiceField(
        required=False, choices=_YES_OR_NO, label="Projects at the top lend"
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        policy = SchedulingPolicy.current()
        for name, kind in (("order", Order), ("backfill", Backfill)):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            same = ("", f"{AS_IT_IS}: {getattr(policy, name)}")
            field.choices = [same, *((one.value, one.value) for one in kind)]
        self.fields["reservations"].widget.attrs["placeholder"] = str(policy.reservations)
        dress(self)

    def span(self, now: datetime) -> Span:
        """The time that was chosen."""
        period = self.cleaned_data["period"]
        return Span.read({"period": "" if period == "month" else period}, now)


class ProjectRow(forms.Form):
    """What is changed of one project, but for its quotas."""

    project = forms.ChoiceField(required=False)
    shares = forms.IntegerField(required=False, min_value=0, max_value=MAX_SHARES)
    lends = forms.ChoiceField(required=False, choices=_YES_OR_NO, label="Its children lend")

    def __init__(self, *args: Any, projects: dict[str, int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._projects = projects
        field = self.fields["project"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "none"), *((name, name) for name in projects)]
        self.fields["shares"].widget.attrs["placeholder"] = AS_IT_IS
        dress(self)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        given = any(data.get(name) not in (None, "") for name in ("shares", "lends"))
        if given and not data.get("project") and "project" not in self.errors:
            self.add_error("project", "Say which project.")
        return data

    @property
    def change(self) -> ProjectChange | None:
        """None for a row that was left empty."""
        data = self.cleaned_data
        if not data.get("project"):
            return None
        return ProjectChange(
            self._projects[data["project"]], shares=data["shares"], lends=_read(data["lends"])
        )

    @property
    def is_used(self) -> bool:
        """Something was filled in."""
        return self.is_bound and self.has_changed()


class NodesRow(forms.Form):
    """Nodes that come or go."""

    kind = forms.ChoiceField(required=False, label="Nodes such as")
    more = forms.IntegerField(
        required=False, min_value=-MOST_NODES, max_value=MOST_NODES, label="How many more"
    )

    def __init__(self, *args: Any, choices: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["kind"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "none"), *choices]
        self.fields["more"].widget.attrs["placeholder"] = "as in 2 or -1"
        dress(self)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("more") and not data.get("kind") and "kind" not in self.errors:
            self.add_error("kind", "Say which nodes.")
        return data

    @property
    def change(self) -> NodesChange | None:
        """None for a row that was left empty."""
        kind, more = self.cleaned_data.get("kind"), self.cleaned_data.get("more")
        return NodesChange(kind, more) if kind and more else None


class WhatIfForms:
    """All of the page's form."""

    def __init__(self, data: Any, rows: int) -> None:
        found = kinds(machines.reported()).items()
        choices = [(kind, f"{kind} ({len(nodes)} now)") for kind, nodes in found]
        living = Project.objects.filter(archived_at=None).order_by("name")
        names = dict(living.values_list("name", "pk"))
        limits = QuotaForm(band=None)
        self.form = WhatIfForm(data)
        self.quotas = [
            QuotaRow(data, prefix=f"quota-{n}", projects=names, limits=limits) for n in range(rows)
        ]
        self.projects = [
            ProjectRow(data, prefix=f"project-{n}", projects=names) for n in range(rows)
        ]
        self.nodes = [NodesRow(data, prefix=f"nodes-{n}", choices=choices) for n in range(2)]

    def is_valid(self) -> bool:
        """Looks at all of them, so that each tells what is wrong."""
        every = (self.form, *self.quotas, *self.projects, *self.nodes)
        good = [form.is_valid() for form in every]
        return all(good) and self._names_once()

    def _names_once(self) -> bool:
        seen: set[object] = set()
        for row, names in self._choosing():
            chosen = (names, *(row.cleaned_data.get(name) for name in names))
            if row.cleaned_data.get(names[0]) and chosen in seen:
                row.add_error(names[0], "It is chosen twice. Choose it once.")
                return False
            seen.add(chosen)
        return True

    def _choosing(self) -> Iterator[tuple[forms.Form, tuple[str, ...]]]:
        """Each row, and the fields that say what it is about."""
        yield from ((row, WHOSE) for row in self.quotas)
        yield from ((row, ("project",)) for row in self.projects)
        yield from ((row, ("kind",)) for row in self.nodes)

    @property
    def changes(self) -> Changes:
        """What is to be tried, as far as it was filled in."""
        data = self.form.cleaned_data
        return Changes(
            order=Order(data["order"]) if data["order"] else None,
            backfill=Backfill(data["backfill"]) if data["backfill"] else None,
            reservations=data["reservations"],
            lends_at_top=_read(data["lends_at_top"]),
            projects=tuple(row.change for row in self.projects if row.change),
            nodes=tuple(row.change for row in self.nodes if row.change),
            quotas=tuple(row.change for row in self.quotas if row.change),
        )


def _read(answer: str) -> bool | None:
    return {"yes": True, "no": False}.get(answer)
