from __future__ import annotations

import pytest

from sensecrypt.lab.bench.stock import stock_cost_model


@pytest.mark.slow
def test_every_operation_of_the_stock_implementation_has_a_price():
    cost_model = stock_cost_model()
    assert all(price > 0 for price in vars(cost_model).values())
    # A weight is a float of 53 bits to python-paillier, so a product takes some 50 squarings; a sum is one product.
    assert cost_model.encrypt > cost_model.multiply > 5 * cost_model.add
    assert cost_model.multiply > 5 * cost_model.add_plain
