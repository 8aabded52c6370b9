"""Forms about projects, their members and their quotas."""

from __future__ import annotations

from typing import Any

from django import forms

from jobs.bands import Band
from jobs.scheduler.fairshare import MAX_SHARES
from jobs.scheduler.limits import MAX_LIMIT, Scope
from portal.forms.previewed import PreviewedForm, dress
from portal.forms.spec_text import clock
from portal.forms.walltime import WalltimeField
from portal.models import Gpu, Partition, Project, Quota, User
from portal.models.quota import LIMITS, MAX_DAYS
from portal.queries import accounts

MONTH, ROLLING = Quota.PeriodKind.MONTH.value, Quota.PeriodKind.ROLLING.value
MOST_COUNTED = 2**31 - 1
"""The largest number the database keeps of jobs."""


class ProjectForm(PreviewedForm):
    """A project, new or as it is."""

    name = forms.CharField(
        max_length=64,
        help_text="Small letters, digits, '.', '_' and '-'. Jobs name it so.",
    )
    title = forms.CharField(max_length=200, required=False, help_text="What people know it by.")
    parent = forms.ModelChoiceField(
        Project.objects.none(),
        to_field_name="name",
        required=False,
        label="Below",
        empty_label="nothing: at the top",
        help_text="Limits of what is above hold for it, too.",
        error_messages={"invalid_choice": "There is no such project that it could be below."},
    )
    shares = forms.IntegerField(
        min_value=0, max_value=MAX_SHARES, initial=1,
        help_text="Beside those of its siblings: 3 beside 1 is due three times as much.",
    )  # fmt: skip
    description = forms.CharField(required=False, widget=forms.Textarea(attrs={"rows": 3}))
    lends = forms.BooleanField(
        required=False,
        label="Its children lend to each other",
        help_text="What one does not use of its quota of GPUs others may run on; it is taken back "
        "by preemption.",
    )

    def __init__(self, *args: Any, project: Project | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        parents = Project.objects.filter(archived_at=None)
        if project:
            if project.parent:
                parents |= Project.objects.filter(pk=project.parent.pk)
            parents = parents.exclude(pk__in=accounts.below(project.pk))
        else:
            del self.fields["lends"]
        chooser = self.fields["parent"]
        assert isinstance(chooser, forms.ModelChoiceField)
        chooser.queryset = parents.order_by("name")
        dress(self)


class _People(forms.ModelChoiceField):
    """By the names of their accounts."""

    def label_from_instance(self, obj: User) -> str:
        return obj.username


class MemberForm(PreviewedForm):
    """A member's shares; `user` only for a new one."""

    user = _People(
        User.objects.none(),
        to_field_name="username",
        empty_label="choose one",
        error_messages={"invalid_choice": "There is no such person, or they are a member already."},
    )
    shares = forms.IntegerField(
        min_value=0, max_value=MAX_SHARES, initial=1,
        help_text="Beside those of the other members and of the projects below.",
    )  # fmt: skip
    lead = forms.BooleanField(
        required=False,
        label="Leads the project",
        help_text="Named as lead on the project's page: the one to ask.",
    )

    def __init__(self, *args: Any, project: Project, member: User | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if member:
            del self.fields["user"]
        else:
            chooser = self.fields["user"]
            assert isinstance(chooser, _People)
            others = User.objects.filter(is_active=True).exclude(memberships__project=project)
            chooser.queryset = others.order_by("username")
        dress(self)


class LendingForm(PreviewedForm):
    """Whether projects at the top lend to each other."""

    lends = forms.BooleanField(
        required=False,
        label="Projects at the top lend to each other",
        help_text="What one does not use of its quota of GPUs others may run on; it is taken back "
        "by preemption.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        dress(self)


class QuotaForm(PreviewedForm):
    """The limits of one scope and band. What is left empty is not limited."""

    gpus = forms.FloatField(
        required=False,
        min_value=0,
        max_value=MAX_LIMIT,
        label="GPUs at once",
        help_text="Parts of one are fractions.",
    )
    jobs_running = forms.IntegerField(required=False, min_value=0, max_value=MOST_COUNTED)
    jobs_pending = forms.IntegerField(
        required=False, min_value=0, max_value=MOST_COUNTED, label="Jobs waiting"
    )
    gpu_hours = forms.FloatField(
        required=False, min_value=0, max_value=MAX_LIMIT, label="GPU-hours"
    )
    period = forms.ChoiceField(
        required=False,
        choices=[(MONTH, "a calendar month"), (ROLLING, "the last days")],
        label="Used in",
    )
    period_days = forms.IntegerField(
        required=False, min_value=1, max_value=MAX_DAYS, label="How many days",
        help_text="Of the last days; a calendar month has its own.",
    )  # fmt: skip
    walltime = WalltimeField(
        label="Longest walltime", help_text="4:00:00 is four hours, 2-12 two and a half days."
    )
    partitions = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, help_text="None chosen: all."
    )
    gpu_models = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="GPU models",
        help_text="None chosen: all.",
    )

    def __init__(self, *args: Any, band: Band | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        models = Gpu.objects.order_by("model").values_list("model", flat=True).distinct()
        self._choose("partitions", Partition.objects.values_list("name", flat=True))
        self._choose("gpu_models", models)
        if band is Band.BEST_EFFORT:
            for name in ("gpus", "gpu_hours", "period", "period_days", "jobs_running"):
                del self.fields[name]
        dress(self)

    def _choose(self, name: str, found: Any) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.MultipleChoiceField)
        # What is allowed already is kept, known or not.
        known = list(dict.fromkeys([*found, *self.initial.get(name, [])]))
        field.choices = [(item, item) for item in known]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        rolling = data.get("period") == ROLLING and data.get("gpu_hours") is not None
        if rolling and data.get("period_days") is None and "period_days" not in self.errors:
            self.add_error("period_days", "Say how many days.")
        return data

    @property
    def limits(self) -> dict[str, Any]:
        """By the names of the columns."""
        data = self.cleaned_data | {"walltime_s": self.cleaned_data.get("walltime")}
        found = {name: data.get(name) for name in LIMITS}
        return {name: None if value in ("", []) else value for name, value in found.items()}

    @property
    def period_days_wanted(self) -> int | None:
        """None for calendar months."""
        data = self.cleaned_data
        return data.get("period_days") if data.get("period") == ROLLING else None


def quota_initial(row: Quota | None) -> dict[str, Any]:
    """The form as a quota is."""
    if row is None:
        return {}
    found = {name: getattr(row, name) for name in LIMITS}
    found |= {"period": row.period, "period_days": row.period_days}
    for name in ("gpus", "gpu_hours"):
        if found[name] is not None:
            found[name] = str(found[name]).removesuffix(".0")
    found["walltime"] = "" if row.walltime_s is None else clock(row.walltime_s)
    return {name: value for name, value in found.items() if value is not None}


def scope_and_band(query: Any) -> tuple[Scope, Band | None]:
    """What is asked for in a URL; the project's for all bands where that is nothing known."""
    scope, band = query.get("scope", ""), query.get("band", "")
    return (
        Scope(scope) if scope in list(Scope) else Scope.PROJECT,
        Band(band) if band in list(Band) else None,
    )
