from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Example counts are the budget; a busy machine must not fail a law for being slow.
settings.register_profile("default", deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
