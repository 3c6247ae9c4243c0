from __future__ import annotations

import time

import numpy as np

from sensecrypt.simulation.trainingcache import timed

KEY = ("train", "digits", 0)


def vector(value: float) -> np.ndarray:
    return np.full(3, value, dtype=np.float32)


def slow(value: float) -> np.ndarray:
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
    return vector(value)


def test_a_result_is_made_once_for_each_start(tmp_path):
    made = [timed(tmp_path, KEY, vector(1), lambda: slow(2)), timed(tmp_path, KEY, vector(1), lambda: slow(3))]
    assert [result.tolist() for result, _ in made] == [[2, 2, 2]] * 2
    assert made[0][1] == made[1][1] > 0.01


def test_the_same_work_from_other_weights_has_its_own_result_and_the_same_time(tmp_path):
    _, first = timed(tmp_path, KEY, vector(1), lambda: slow(2))
    result, second = timed(tmp_path, KEY, vector(1 + 1e-6), lambda: vector(4))
    assert result.tolist() == [4, 4, 4]
    assert second == first
    assert timed(tmp_path, ("train", "digits", 1), vector(1), lambda: vector(5))[1] < first


def test_without_a_folder_nothing_is_kept():
    assert timed(None, KEY, vector(1), lambda: slow(2))[1] > timed(None, KEY, vector(1), lambda: vector(2))[1]
