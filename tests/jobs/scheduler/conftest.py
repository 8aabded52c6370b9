"""How many cases are generated: few each time, thousands by `make test-deep`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

# The same few each time: new cases are found by who looks for them, not by the next change.
settings.register_profile(
    "short", max_examples=25, deadline=None, suppress_health_check=SLOW, derandomize=True
)
settings.register_profile("deep", max_examples=2000, deadline=None, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("CARREL_TEST_PROFILE", "short"))
