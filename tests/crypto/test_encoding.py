from __future__ import annotations

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt import FixedPoint, InvalidInput, ValueDoesNotFit
from sensecrypt.crypto.encoding import pack, unpack

formats = st.one_of(
    st.builds(FixedPoint, st.integers(0, 10), st.just(16)),
    st.builds(FixedPoint, st.integers(0, 28), st.just(32)),
    st.builds(FixedPoint, st.integers(0, 40), st.just(64)),
)


def numbers(form: FixedPoint, **size):
    return st.lists(st.floats(-form.largest, form.largest), **size)


@given(st.data(), formats, st.floats(0.001, 1))
def test_decoding_inverts_encoding_within_half_a_step(data, form, weight):
    values = np.array(data.draw(numbers(form, min_size=1, max_size=20)))
    decoded = form.decode(form.encode(values, weight), weight)
    bound = 2.0 ** -(form.frac_bits + 1) / weight
    # Beyond 53 bits a double itself is coarser than a step.
    assert (np.abs(decoded - values) <= bound * (1 + 1e-9) + np.abs(values) * 2.0**-51).all()


@given(st.data(), formats, st.integers(1, 30))
def test_a_weighted_sum_of_accepted_values_always_fits(data, form, clients):
    raw = np.array(data.draw(st.lists(st.floats(0.01, 1), min_size=clients, max_size=clients)))
    weights = raw / raw.sum()
    worst = form.largest * np.array(data.draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=3, max_size=3)))
    total = sum(form.encode(worst, min(weight, 1.0)).astype(object) for weight in weights)
    assert all(-(2 ** (form.slot_bits - 1)) <= each < 2 ** (form.slot_bits - 1) for each in total)


def test_a_thousand_rounded_summands_at_the_limit_still_fit():
    form = FixedPoint(8, 16)
    total = sum(form.encode([form.largest], 1 / 1000) for _ in range(1000))
    assert abs(int(total[0])) < 2**15


@given(st.data(), st.sampled_from([16, 32, 64]), st.integers(1, 8))
def test_packing_keeps_values_and_sums(data, slot_bits, slots):
    low, high = -(2 ** (slot_bits - 2)), 2 ** (slot_bits - 2) - 1
    pairs = data.draw(st.lists(st.tuples(st.integers(low, high), st.integers(low, high)), min_size=1, max_size=20))
    a, b = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    packed_a, packed_b = (pack(x, slot_bits=slot_bits, slots=slots) for x in (a, b))
    assert np.array_equal(unpack(packed_a, len(a), slot_bits=slot_bits, slots=slots), a)
    # The definition, by Python's integers.
    first = sum(int(v) << (slot_bits * s) for s, v in enumerate(a[:slots]))
    assert packed_a[0] == first
    sums = [x + y for x, y in zip(packed_a, packed_b, strict=True)]
    assert np.array_equal(unpack(sums, len(a), slot_bits=slot_bits, slots=slots), a + b)


def test_negative_slots_borrow_from_the_next():
    assert pack(np.array([-1, 0, 1]), slot_bits=16, slots=3) == [2**32 - 1]
    assert pack(np.array([-1, -1]), slot_bits=16, slots=2) == [-(2**16) - 1]


@pytest.mark.parametrize("number", [mpz(2**31), mpz(-(2**31) - 1), mpz(2**200)])
def test_what_is_no_packed_number_overflows(number):
    with pytest.raises(OverflowError):
        unpack([number], 1, slot_bits=32, slots=1)


def test_leftovers_in_unused_slots_are_noticed():
    [packed] = pack(np.array([1, 2]), slot_bits=32, slots=2)
    with pytest.raises(OverflowError):
        unpack([packed], 1, slot_bits=32, slots=2)


def test_what_does_not_fit_names_the_tensor_and_the_limit():
    form = FixedPoint(24, 32)
    with pytest.raises(ValueDoesNotFit) as error:
        form.encode([0.0, 1.0, 987654.0], name="fc1.weight")
    told = error.value
    assert told.argument == "fc1.weight"
    assert "index 2" in told.problem
    assert f"{form.largest:.6g}" in told.fix
    assert "987654" not in str(told)


def test_room_shrinks_with_the_stated_weight_sum():
    assert FixedPoint(24, 32, weight_sum=2.0).largest == pytest.approx(FixedPoint(24, 32).largest / 2)
    with pytest.raises(InvalidInput):
        FixedPoint(24, 32).encode([1.0], 1.5)
    assert FixedPoint(24, 32, weight_sum=2.0).encode([1.0], 1.5).tolist() == [1.5 * 2**24]


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: FixedPoint(8, 24), "slot_bits"),
        (lambda: FixedPoint(63, 32), "frac_bits"),
        (lambda: FixedPoint(-1, 32), "frac_bits"),
        (lambda: FixedPoint(4, 16, max_summands=10**6), "max_summands"),
        (lambda: FixedPoint(8, 32).encode([np.nan], name="bias"), "bias"),
        (lambda: FixedPoint(8, 32).encode([]), "array"),
        (lambda: FixedPoint(8, 32).encode([1.0], 0.0), "weight"),
        (lambda: FixedPoint(8, 32).decode([1.5]), "ints"),
        (lambda: FixedPoint(8, 32).decode([1], 0.0), "total_weight"),
        (lambda: FixedPoint(8, 32).decode([2**40], 1e-310), "total_weight"),
        (lambda: FixedPoint(8, 32).encode([10**400]), "array"),
        (lambda: FixedPoint(8, 32).encode([1 + 2j]), "array"),
        (lambda: FixedPoint(8, 32).encode(["1.0"]), "array"),
        (lambda: FixedPoint(8, 32).encode([1.0], 10**400), "weight"),
        (lambda: FixedPoint(8, 32, max_summands=10**400), "max_summands"),
        (lambda: FixedPoint(8, np.array([32, 16])), "slot_bits"),
        (lambda: FixedPoint(8, 32, weight_sum="much"), "weight_sum"),
    ],
)
def test_bad_input_is_named(call, argument):
    with pytest.raises(InvalidInput) as error:
        call()
    assert error.value.argument == argument
