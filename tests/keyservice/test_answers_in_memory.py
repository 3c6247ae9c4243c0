"""Models that are being sent: so many megabytes of them in memory, each once, and two answers per certificate."""

from __future__ import annotations

import contextlib

import pytest

from sensecrypt.errors import Refused
from sensecrypt.keyservice.http.modelanswers import ModelAnswers
from sensecrypt.protocol.round import RoundAddress

FIRST, SECOND = RoundAddress("run", 0, 0, "model", 0), RoundAddress("run", 1, 0, "model", 0)


def refused(answers: ModelAnswers, place: RoundAddress, holder: str, code: str) -> None:
    with pytest.raises(Refused) as refusal, answers.held(place, 60, holder):
        pass
    assert refusal.value.code == code


def test_models_beyond_the_memory_that_is_set_aside_wait():
    answers = ModelAnswers(100)
    with contextlib.ExitStack() as stack:
        for client in range(5):  # one copy, whoever asks for it
            stack.enter_context(answers.held(FIRST, 60, f"client phone-{client}"))
        refused(answers, SECOND, "client phone-9", "busy")
    with answers.held(SECOND, 60, "client phone-9"):
        refused(answers, FIRST, "client phone-0", "busy")


def test_one_model_is_sent_however_large_it_is():
    with ModelAnswers(10).held(FIRST, 60, "client phone-0"):
        pass


def test_a_certificate_has_two_answers_at_once():
    answers = ModelAnswers(100)
    with answers.held(FIRST, 60, "client phone-0"):
        with answers.held(FIRST, 60, "client phone-0"):
            refused(answers, FIRST, "client phone-0", "rate-limited")
        with answers.held(FIRST, 60, "client phone-0"):
            pass
