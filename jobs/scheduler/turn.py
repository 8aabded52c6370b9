"""What decides about a waiting job's turn where its points do not, as sentences."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jobs.scheduler import words
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.predict import ORDER_FLOOR_S
from jobs.scheduler.priority import AFTER_LONG
from jobs.scheduler.rank import expected_s, is_long, ratio, service, waited_s
from jobs.scheduler.snapshot import Pending


@dataclass(frozen=True)
class Turn:
    """What the order in force goes by, and the job's own figures in it."""

    rule: str
    own: str


RULES = {
    Order.PRIORITY: "In each band the most points go first.",
    Order.SUBMISSION: "In each band who came first goes first.",
    Order.SHORTEST: "In each band the shortest expected run goes first.",
    Order.LEAST_SERVICE: "In each band the least GPUs x expected run goes first.",
    Order.RESPONSE_RATIO: "In each band the highest response ratio goes first.",
    Order.FAIR_RATIO: "In each band the highest response ratio x fair share goes first.",
}


def turn(policy: Policy, job: Pending, fair_share: float, now: datetime) -> Turn | None:
    """None where the order is that of priority: its points say it all.

    `fair_share` is the factor of the job's project and user.
    """
    if policy.order is Order.PRIORITY:
        return None
    return Turn(RULES[policy.order], _own(policy, job, fair_share, now))


def _own(policy: Policy, job: Pending, fair_share: float, now: datetime) -> str:
    own = _figures(policy, job, fair_share, now)
    long = policy.gives_turns and is_long(waited_s(job, now.timestamp()))
    return f"{own} {AFTER_LONG}" if long else own


def _figures(policy: Policy, job: Pending, fair_share: float, now: datetime) -> str:
    if policy.order is Order.SUBMISSION:
        return f"It came at {words.clock(job.submitted_at, now)}."
    if policy.order is Order.SHORTEST:
        return f"It counts as a run of {words.span(expected_s(job))}."
    if policy.order is Order.LEAST_SERVICE:
        gpus = words.count(max(1, job.resources.gpus), "GPU")
        hours = service(job) / 3600
        return f"{gpus} x {words.span(expected_s(job))} = {hours:,.2f} GPU-hours."
    return _ratio(policy.order, job, fair_share, now.timestamp())


def _ratio(order: Order, job: Pending, fair_share: float, now: float) -> str:
    waited, expected = waited_s(job, now), expected_s(job)
    lead = f"It has waited for {words.span(waited)} and counts as a run of {words.span(expected)}:"
    found = ratio(job, now)
    told = (
        f"{lead} ({waited:,.0f} s + {ORDER_FLOOR_S:g} s) / the root of "
        f"({expected:,.0f} s + {ORDER_FLOOR_S:g} s) = {found:,.1f}"
    )
    if order is Order.FAIR_RATIO:
        told += f", x {fair_share:.2f} of fair share = {found * fair_share:,.1f}"
    return f"{told}."
