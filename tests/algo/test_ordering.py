from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.algo.ordering import descending_order

plain = st.floats(0, 1e300, allow_subnormal=True)
nearly_equal = st.integers(0, 40).map(lambda ulps: 1.0 + ulps * 2.0**-52)  # differ in the replaced bits only


@given(st.lists(st.one_of(plain, nearly_equal, st.just(0.0), st.just(-0.0)), min_size=1, max_size=80))
def test_equals_a_stable_descending_argsort(values):
    array = np.array(values)
    order, in_order = descending_order(array)
    assert order.tolist() == np.argsort(-array, kind="stable").tolist()
    assert in_order.tolist() == array[order].tolist()


def test_repairs_runs_of_nearly_equal_numbers_in_a_large_array():
    rng = np.random.default_rng(0)
    values = 1.0 + rng.integers(0, 500, 200_000) * 2.0**-52
    order, _ = descending_order(values)
    assert np.array_equal(order, np.argsort(-values, kind="stable"))
