"""What is said of a limit: why a request is refused, and why one has to wait."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from jobs.scheduler.limits import Demand, Excess, Limited, Refusal, Rule, Scope
from jobs.scheduler.words import amount, clock, listed

_MINUTE = timedelta(minutes=1)
_FIELDS = {
    Limited.PARTITIONS: "partition",
    Limited.GPU_MODELS: "gpu_model",
    Limited.WALLTIME: "walltime",
    Limited.JOBS_RUNNING: "project",
    Limited.GPUS: "gpus",
    Limited.LENDING: "gpus",
}


def refusal(rule: Rule, demand: Demand, jobs: int) -> Refusal:
    """What to tell whoever asks for more than `rule` ever allows."""
    asked, wish = _wish(rule, demand, jobs)
    named = rule.limited in (Limited.PARTITIONS, Limited.GPU_MODELS)
    allowed = tuple(sorted(rule.names)) if named else rule.limit
    return Refusal(rule, _field(rule, jobs), asked, allowed, f"{_allows(rule)}; {wish}.")


def excess(
    rule: Rule,
    *,
    user_id: int | None,
    used: float,
    held: float,
    asked: float,
    until: datetime | None,
    owed: bool,
    now: datetime,
) -> Excess:
    """What to tell whoever has to wait. Times in the sentence are in the time zone of `now`."""
    over = used + held + asked - rule.limit
    sentence = f"{_allows(rule)}: {_taken(rule, used, held)}, {_asks(rule, asked)}, "
    sentence += f"{_number(over, up=True)} too many."
    if until is not None:
        # Never told too early: a minute that has begun counts as over.
        when = clock(until + _MINUTE - timedelta(microseconds=1), now)
        sentence += f" There will be enough at {when} if nothing else starts."
    if owed:
        sentence += (
            " Its project is within its own guarantee and may take back what others borrowed."
        )
    return Excess(rule, user_id, used, held, asked, over, until, owed, sentence)


def spoken_for(rule: Rule, names: str, many: bool) -> str:
    """What to tell whoever would take what others before it are going to need."""
    come = "come" if many else "comes"
    return f"{_allows(rule)}; what is left of that is kept for {names}, which {come} before it."


def _field(rule: Rule, jobs: int) -> str:
    if rule.limited is Limited.JOBS_PENDING:
        return "project" if jobs == 1 else "array"
    if rule.limited is Limited.GPU_HOURS:
        return "walltime" if rule.limit else "gpus"
    return _FIELDS[rule.limited]


def _wish(rule: Rule, demand: Demand, jobs: int) -> tuple[float | str, str]:
    match rule.limited:
        case Limited.PARTITIONS:
            return demand.partition, f"this asks for {demand.partition}"
        case Limited.GPU_MODELS:
            return _model_wish(rule, demand)
        case Limited.WALLTIME:
            return demand.walltime_s, f"this asks for {exact_span(demand.walltime_s)}"
        case Limited.JOBS_RUNNING:
            return 1, "this is one"
        case Limited.JOBS_PENDING:
            return jobs, "this is one" if jobs == 1 else f"these are {_number(jobs)}"
        case Limited.GPU_HOURS:
            return _hours_wish(rule, demand)
    return demand.gpus, f"this asks for {_number(demand.gpus)}"


def _model_wish(rule: Rule, demand: Demand) -> tuple[str, str]:
    asked = demand.gpu_model or ""
    return asked, f"this asks for {asked if asked and rule.names else _gpus(demand.gpus)}"


def _hours_wish(rule: Rule, demand: Demand) -> tuple[float, str]:
    hours = demand.gpu_seconds / 3600
    wish = f"{_gpus(demand.gpus)} for {exact_span(demand.walltime_s)} are {_number(hours, up=True)}"
    longest = math.floor(rule.limit * 3600 / demand.gpus)
    return hours, f"{wish}, and could run {exact_span(longest)} at most" if longest >= 60 else wish


def _allows(rule: Rule) -> str:
    """`Project vision may use 16 GPUs at once`."""
    names = listed(sorted(rule.names)) or "none"
    match rule.limited:
        case Limited.LENDING:
            where = f"below {rule.project}" if rule.project else "at the top"
            return f"The projects {where} lend to each other and have {_gpus(rule.limit)} in all"
        case Limited.PARTITIONS:
            return f"{_jobs_of(rule)} may run in these partitions: {names}"
        case Limited.GPU_MODELS:
            return f"{_jobs_of(rule)} may use GPUs of these models: {names}"
        case Limited.WALLTIME:
            return f"{_jobs_of(rule)} may run for {exact_span(round(rule.limit))} at most"
        case Limited.JOBS_RUNNING:
            return f"{_whose(rule)} may run {_many(rule.limit, 'job')} at once{_in_band(rule)}"
        case Limited.JOBS_PENDING:
            return f"{_whose(rule)} may have {_many(rule.limit, 'job')} waiting{_in_band(rule)}"
        case Limited.GPU_HOURS:
            much = _many(rule.limit, "GPU-hour")
            return f"{_whose(rule)} may use {much} {rule.period}{_in_band(rule)}"
    return f"{_whose(rule)} may use {_gpus(rule.limit)} at once{_in_band(rule)}"


def _taken(rule: Rule, used: float, held: float) -> str:
    much = _number(used) + (" of this user's" if rule.scope is Scope.USER else "")
    is_ = "is" if used == 1 else "are"
    match rule.limited:
        case Limited.JOBS_RUNNING:
            return f"{much} {is_} running"
        case Limited.JOBS_PENDING:
            return f"{much} {is_} waiting"
        case Limited.GPU_HOURS:
            return f"{much} {is_} used and {_number(held)} held for running jobs"
    return f"{much} {is_} in use"


def _asks(rule: Rule, asked: float) -> str:
    if rule.limited in (Limited.JOBS_RUNNING, Limited.JOBS_PENDING):
        return f"{'this is' if asked == 1 else 'these are'} {_number(asked)} more"
    return f"this asks for {_number(asked)}"


def _whose(rule: Rule) -> str:
    return f"{'Each user of p' if rule.scope is Scope.USER else 'P'}roject {rule.project}"


def _jobs_of(rule: Rule) -> str:
    return f"Jobs of project {rule.project}{_in_band(rule)}"


def _in_band(rule: Rule) -> str:
    return "" if rule.band is None else f" in band {rule.band}"


def _gpus(number: float) -> str:
    return _many(number, "GPU")


def _many(number: float, thing: str) -> str:
    return f"{_number(number)} {thing}" if number == 1 else f"{_number(number)} {thing}s"


def _number(number: float, up: bool = False) -> str:
    """`16`, `1,000`, `0.5`: to the hundredth, where told `up` never less than it is."""
    # Beyond a millionth it is noise of floats and nothing that anybody asked for.
    hundredths = round(number * 100, 4)
    cut = math.ceil(hundredths) if up else round(hundredths)
    return amount(cut / 100)


def exact_span(seconds: int) -> str:
    """In full: `24 h`, `1 h 30 min`, `45 s`."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    told = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{number:,} {unit}" for number, unit in told if number) or "0 s"
