"""The form of the scheduling policy, with what each choice means for those who wait."""

from __future__ import annotations

from typing import Any

from django import forms

from jobs.bands import Band
from jobs.scheduler.policy import MAX_S, Backfill, Order
from jobs.scheduler.priority import AFTER_LONG
from portal.forms.previewed import PreviewedForm, dress
from portal.forms.standing import plain, seconds, tell_standing
from portal.models import SchedulingPolicy
from portal.queries.pass_rows import MAX_PENDING

MINUTE_S = 60
MOST_PREEMPTIONS = 1000
ORDERS = {
    Order.PRIORITY: "Priority: fair share, age, size and the nice value, as each partition "
    "weighs them.",
    Order.SUBMISSION: "First come, first served: fair share, age and size do not count.",
    Order.SHORTEST: "Shortest job first, by the run time that is foretold from past jobs, else by "
    "the walltime. Fair share does not count.",
    Order.LEAST_SERVICE: "Least service first: the foretold run time times the GPUs. Fair share "
    "does not count.",
    Order.RESPONSE_RATIO: "Response ratio: the longest wait in relation to the foretold run time. "
    "Fair share does not count.",
    Order.FAIR_RATIO: "Fair ratio: the same, and sooner for who has had less than their share.",
}
BACKFILLS = {
    Backfill.NONE: "None: nothing passes a job that waits for room.",
    Backfill.RESERVING: "Reserving: what delays nobody who is promised a time may pass.",
    Backfill.EASY: "Easy: as reserving, but each job is only tried where it would be if nothing "
    "were promised. It is there to compare with published simulations.",
    Backfill.GREEDY: "Greedy: whatever fits starts.",
}
_WARNINGS = {
    Order.SUBMISSION: "First come, first served: who submits a thousand jobs goes before all who "
    "come later, whatever their shares.",
    Order.SHORTEST: f"Shortest job first: short jobs pass long ones. {AFTER_LONG} Shares no longer "
    "decide who is next.",
    Order.LEAST_SERVICE: f"Least service first: small jobs pass long or large ones. {AFTER_LONG} "
    "Shares no longer decide who is next.",
    Order.RESPONSE_RATIO: "Response ratio: waiting lifts every job, so that nobody waits for ever, "
    "but shares no longer decide who is next.",
    Order.FAIR_RATIO: "Fair ratio: short jobs pass long ones until those have waited for much "
    "longer. The nice value does not count.",
    Backfill.NONE: "Without backfill GPUs stand idle whenever a large job waits for room.",
    Backfill.GREEDY: "Greedy backfill keeps no promise: a large job can wait for ever while small "
    "ones fit beside each other.",
}


class PolicyForm(PreviewedForm):
    """How jobs are scheduled, for the whole cluster."""

    order = forms.ChoiceField(
        choices=[(order.value, words) for order, words in ORDERS.items()],
        widget=forms.RadioSelect,
        label="Who goes first within a band",
        help_text="No order lets a job go before one of a higher band. In all of them but the "
        "second, after 14 days one job of each user at a time goes before all others of its band.",
    )
    backfill = forms.ChoiceField(
        choices=[(way.value, words) for way, words in BACKFILLS.items()],
        widget=forms.RadioSelect,
        label="Who may pass a job that waits for room",
    )
    reservations = forms.IntegerField(
        min_value=1, max_value=MAX_PENDING, label="Jobs promised a time",
        help_text="In each partition so many waiting jobs are promised a start that others must "
        "not delay, beside those for whom others make room. More of them keep large jobs safer "
        "and passes slower.",
    )  # fmt: skip
    grace_s = forms.FloatField(
        min_value=0, max_value=MAX_S, label="Grace, in seconds",
        help_text="The time of a preempted job from its signal to its end, to save its work.",
    )  # fmt: skip
    min_run = forms.FloatField(
        min_value=0, max_value=MAX_S / MINUTE_S, label="Shortest run, in minutes",
        help_text="Nobody is preempted before it has run for so long.",
    )  # fmt: skip
    max_preemptions = forms.IntegerField(
        min_value=0, max_value=MOST_PREEMPTIONS, label="Preemptions in a row",
        help_text="Who was preempted so often in a row is left alone. 0: nobody is preempted.",
    )  # fmt: skip

    def __init__(self, *args: Any, row: SchedulingPolicy, **kwargs: Any) -> None:
        super().__init__(*args, initial=_initial(row), **kwargs)
        usual = SchedulingPolicy()
        for band in Band:
            if band.rank:
                self.fields[_victims(band)] = _victims_field(band)
        self.order_fields(["order", "backfill", "reservations", *map(_victims, Band)])
        self.fields["reservations"].widget.attrs["data-wide"] = True
        for name, now in _initial(row).items():
            tell_standing(self, name, _told(now), _told(_initial(usual)[name]))
        dress(self)

    @property
    def terms(self) -> dict[str, Any]:
        """As `set_policy` takes them."""
        data = self.cleaned_data
        preempts = {
            band.value: [other.value for other in Band if other in data[_victims(band)]]
            for band in Band
            if band.rank
        }
        return {
            "order": data["order"],
            "backfill": data["backfill"],
            "reservations": data["reservations"],
            "preempts": {band: victims for band, victims in preempts.items() if victims},
            "grace_s": data["grace_s"],
            "min_run_s": seconds(data["min_run"], MINUTE_S),
            "max_preemptions": data["max_preemptions"],
        }

    @property
    def warnings(self) -> list[str]:
        """What people have to know of what is chosen."""
        chosen = (Order(self.cleaned_data["order"]), Backfill(self.cleaned_data["backfill"]))
        return [_WARNINGS[one] for one in chosen if one in _WARNINGS]


def _victims(band: Band) -> str:
    return f"preempts_{band}"


def _victims_field(band: Band) -> forms.MultipleChoiceField:
    lower = [other.value for other in Band if other.rank < band.rank]
    return forms.MultipleChoiceField(
        required=False,
        choices=[(name, name) for name in lower],
        widget=forms.CheckboxSelectMultiple,
        label=f"A {band} job may preempt",
        help_text=""
        if band is not Band.MONITORING
        else "Whoever is preempted is told to stop, and waits again.",
    )


def _initial(row: SchedulingPolicy) -> dict[str, Any]:
    victims = {_victims(band): list(row.preempts.get(band.value, [])) for band in Band if band.rank}
    return {
        "order": row.order,
        "backfill": row.backfill,
        "reservations": row.reservations,
        "grace_s": plain(row.grace_s),
        "min_run": plain(row.min_run_s / MINUTE_S),
        "max_preemptions": row.max_preemptions,
    } | victims


def _told(value: Any) -> Any:
    return str(value).replace("-", " ") if value in list(Order) else value
