from __future__ import annotations

import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest

from sensecrypt import InvalidInput, sketch
from sensecrypt.algo import sketching
from sensecrypt.algo.sketching import rotate

SEED = b"sixteen or more."
CODE = """
import hashlib, numpy as np, sensecrypt
vector = np.random.Generator(np.random.PCG64(5)).random(100_000)
print(hashlib.sha256(sensecrypt.sketch(vector, seed=b"sixteen or more.").tobytes()).hexdigest())
"""


def long_tailed(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.abs(rng.normal(size=size) * rng.lognormal(-8, 2, size))


def test_hellinger_distances_of_20_vectors_are_kept():
    rng = np.random.default_rng(0)
    vectors = [long_tailed(rng, 124_534) for _ in range(20)]
    units = np.array([np.sqrt(v / v.sum()) for v in vectors])
    sketches = np.array([sketch(v, seed=SEED) for v in vectors])
    assert sketches.shape == (20, 256)
    pairs = np.triu_indices(20, 1)
    true = np.linalg.norm(units[pairs[0]] - units[pairs[1]], axis=1)
    kept = np.linalg.norm(sketches[pairs[0]] - sketches[pairs[1]], axis=1)
    assert (np.abs(kept / true - 1) <= 0.15).mean() >= 0.95


def test_a_second_process_gives_the_same_bytes():
    vector = np.random.Generator(np.random.PCG64(5)).random(100_000)
    here = hashlib.sha256(sketch(vector, seed=SEED).tobytes()).hexdigest()
    there = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout.strip()
    assert there == here


def test_the_bytes_are_pinned():
    """Worked from the definition with Python integers and floats alone: no NumPy arithmetic."""
    vector, size, width = [0.5, -1.0, 0.25, 2.0], 8, 2
    message = b"sensecrypt sketch v2" + (16).to_bytes(8, "little") + SEED + bytes(8)
    stream = hashlib.shake_256(message).digest(2 * 4 * 4)
    roots = [math.copysign(math.sqrt(abs(value) / 2.0), value) for value in vector]
    result = [0.0] * size
    for part in range(4):
        for index in range(len(vector)):
            place = 2 * (part * 4 + index)
            random = int.from_bytes(stream[place : place + 2], "little")
            result[part * width + (random >> 1) % width] += roots[index] * (1 if random & 1 else -1)
    length = sum(root**2 for root in roots) ** 0.5
    assert sketch(vector, seed=SEED, size=size).tolist() == pytest.approx([x / length / 2 for x in result], rel=1e-15)


def test_length_of_the_vector_does_not_matter_but_the_seed_does():
    vector = np.random.default_rng(1).random(1000)
    assert np.array_equal(sketch(vector, seed=SEED), sketch(vector * 1024.0, seed=SEED))
    assert not np.allclose(sketch(vector, seed=SEED), sketch(vector, seed=SEED + b"!"))


def test_places_and_signs_are_balanced():
    stream = sketching._keystream(SEED, 0, 1 << 16)
    assert abs((stream & 1).mean() - 0.5) < 0.005
    places = np.bincount((stream >> 1).ravel() % 64, minlength=64)
    assert abs(places / places.mean() - 1).max() < 0.1


@pytest.mark.slow
def test_a_model_of_23_million_parameters_needs_little_memory():
    code = (
        "import numpy as np, sensecrypt\n"
        "from sensecrypt.lab.bench.measure import peak_mb\n"
        "vector = np.ones(23_705_252)\n"
        "before = peak_mb()\n"
        "sensecrypt.sketch(vector, seed=bytes(16))\n"
        "print(int(peak_mb() - before))\n"
    )
    grown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(grown) < 300  # a dense projection would be 48 GB


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"seed": b"short"}, "seed"),
        ({"seed": "sixteen or more."}, "seed"),
        ({"size": 255}, "size"),
        ({"size": 0}, "size"),
        ({"vector": np.zeros(4)}, "vector"),
        ({"vector": [1.0, np.nan]}, "vector"),
        ({"vector": []}, "vector"),
    ],
)
def test_bad_input_is_named(arguments, argument):
    arguments = {"vector": [1.0, 2.0], "seed": SEED, **arguments}
    with pytest.raises(InvalidInput) as error:
        sketch(arguments.pop("vector"), **arguments)
    assert error.value.argument == argument


class TestTurning:
    """The second of two hands that a sketch goes through."""

    def test_distances_and_lengths_stay(self):
        rows = np.random.default_rng(0).normal(size=(6, 256))
        turned = np.array([rotate(row, seed=b"k" * 32) for row in rows])
        assert np.allclose(turned @ turned.T, rows @ rows.T)

    def test_another_seed_is_another_rotation_and_the_same_seed_the_same(self):
        row = sketch(np.arange(1.0, 5000.0), seed=b"s" * 32)
        assert np.array_equal(rotate(row, seed=b"k" * 32), rotate(row, seed=b"k" * 32))
        other = rotate(row, seed=b"l" * 32)
        assert abs(other @ rotate(row, seed=b"k" * 32)) < 0.3 * (row @ row)

    def test_a_turned_sketch_says_nothing_to_whoever_has_only_the_sketch_seed(self):
        """Of ten candidates the sketch itself tells the right one; turned, the best match is any of them."""
        rng = np.random.default_rng(1)
        candidates = np.abs(rng.normal(size=(10, 3000))) + 3 * (np.arange(3000) // 300 == np.arange(10)[:, None])
        sketches = np.array([sketch(each, seed=b"s" * 32) for each in candidates])
        hits = {"bare": 0, "turned": 0}
        for true in range(10):
            for key in range(10):
                shown = rotate(sketches[true], seed=bytes([key]) * 32)
                hits["turned"] += int((sketches @ shown).argmax() == true)
            hits["bare"] += int((sketches @ sketches[true]).argmax() == true)
        assert hits["bare"] == 10
        assert hits["turned"] < 30  # of 100, 10 by chance

    @pytest.mark.parametrize("row", [[np.nan, 1.0], np.ones(257), []])
    def test_what_cannot_be_turned(self, row):
        with pytest.raises(InvalidInput):
            rotate(row, seed=b"k" * 32)
