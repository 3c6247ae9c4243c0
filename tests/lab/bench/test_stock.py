from __future__ import annotations

import pytest

from sensecrypt.lab.bench.stock import stock_prices


@pytest.mark.slow
def test_every_operation_of_the_stock_implementation_has_a_price():
    prices = stock_prices()
    assert all(price > 0 for price in vars(prices).values())
    # A weight is a float of 53 bits to python-paillier, so a product takes some 50 squarings; a sum is one product.
    assert prices.encrypt > prices.multiply > 5 * prices.add
    assert prices.multiply > 5 * prices.add_plain
