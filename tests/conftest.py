from __future__ import annotations

import os
import signal
import threading

import pytest
from hypothesis import HealthCheck, settings

# Example counts are the budget; a busy machine must not fail a law for being slow. The same examples every time, so
# that a red run is the change's; `thorough` looks for others.
settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Whatever a script starts with `&` ignores Ctrl-C, and so would all programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without the real data sets, tests of them are skipped, and say so."""
    if "real_data" in item.keywords and not os.environ.get("SENSECRYPT_DATA"):
        pytest.skip("needs the real data sets in $SENSECRYPT_DATA")


@pytest.fixture(autouse=True)
def _threads_of_earlier_tests_do_not_count(monkeypatch):
    """Beside other threads nothing is forked; a server's thread that an earlier test left must not change this test."""
    left = set(threading.enumerate()) - {threading.main_thread()}
    if left:
        monkeypatch.setattr(threading, "active_count", lambda: len(set(threading.enumerate()) - left))
