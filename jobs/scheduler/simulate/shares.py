"""What each user of each project has used lately, for the order by priority."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.scheduler.fairshare import Association
from jobs.scheduler.usage import Decay


@dataclass(slots=True)
class _Account:
    value: float = 0.0
    at: float = 0.0
    rate: float = 0.0
    """GPUs that are held since then."""


class Shares:
    """GPU-seconds that fade; the GPUs of running jobs count up to the moment."""

    def __init__(self, decay: Decay) -> None:
        self._decay = decay
        self._accounts: dict[Association, _Account] = {}

    def hold(self, association: Association, gpus: float, now: float) -> None:
        """So many more GPUs from now on; fewer if negative."""
        account = self._accounts.setdefault(association, _Account())
        account.value, account.at = self._value(account, now), now
        account.rate += gpus

    def usage(self, now: float) -> tuple[tuple[Association, float], ...]:
        """As it stands now."""
        return tuple((who, self._value(one, now)) for who, one in self._accounts.items())

    def _value(self, account: _Account, now: float) -> float:
        elapsed = now - account.at
        faded = account.value * self._decay.factor(elapsed)
        return max(0.0, faded + account.rate * self._decay.integral(elapsed))
