from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt import InvalidInput, Mask, MaskMismatch


@st.composite
def masks(draw, *, like: Mask | None = None):
    if like is not None:
        size, block, order = like.size, like.block, like.order
    else:
        size = draw(st.integers(1, 40))
        block = draw(st.integers(1, size))
        order = np.array(draw(st.permutations(range(size)))) if draw(st.booleans()) else None
    total = -(-size // block)
    return Mask(np.array(draw(st.lists(st.booleans(), min_size=total, max_size=total))), size, block, order)


@given(masks())
def test_counts_agree_with_the_array(mask):
    array = mask.to_array()
    assert array.shape == (mask.size,)
    assert mask.count == array.sum()
    assert mask.share == array.mean()
    assert mask.blocks == mask.flags.sum()


@given(masks())
def test_bits_round_trip(mask):
    bits = mask.to_bits()
    assert len(bits) == -(-mask.flags.size // 8)
    assert Mask.from_bits(bits, size=mask.size, block=mask.block, order=mask.order) == mask


@given(st.data())
def test_union_is_the_union_of_the_arrays(data):
    a = data.draw(masks())
    b = data.draw(masks(like=a))
    assert np.array_equal((a | b).to_array(), a.to_array() | b.to_array())
    assert a.union(b) == b.union(a)
    assert (a | a) == a


@given(masks(), st.data())
def test_coverage_is_the_covered_share_of_the_sum(mask, data):
    values = data.draw(st.lists(st.integers(0, 9), min_size=mask.size, max_size=mask.size).filter(any))
    assert mask.coverage(values) == pytest.approx(sum(np.array(values)[mask.to_array()]) / sum(values))


def test_a_block_mask_covers_whole_blocks_and_a_short_last_one():
    mask = Mask(np.array([True, False, True]), size=8, block=3)
    assert mask.to_array().tolist() == [True, True, True, False, False, False, True, True]
    assert (mask.blocks, mask.count) == (2, 5)


def test_a_prefix_follows_its_order():
    mask = Mask.prefix(2, size=5, block=2, order=np.array([4, 0, 3, 1, 2]))
    assert np.flatnonzero(mask.to_array()).tolist() == [0, 1, 3, 4]


def test_a_mask_cannot_be_changed_afterwards():
    source = np.array([True, False])
    mask = Mask.from_array(source)
    source[1] = True
    assert mask.count == 1
    with pytest.raises(ValueError, match="read-only"):
        mask.flags[1] = True


def test_equal_masks_hash_equally_and_differ_from_other_things():
    a, b = Mask.prefix(1, size=3), Mask.prefix(1, size=3)
    assert a == b
    assert hash(a) == hash(b)
    assert a != Mask.prefix(2, size=3)
    assert a != "mask"
    assert repr(a) == "Mask(1 of 3 parameters, 1 blocks of 1)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Mask.prefix(1, size=4) | Mask.prefix(1, size=5),
        lambda: Mask.prefix(1, size=4) | Mask.prefix(1, size=4, block=2),
        lambda: Mask.prefix(1, size=2) | Mask.prefix(1, size=2, order=np.array([1, 0])),
        lambda: Mask.prefix(1, size=4).coverage([1.0, 2.0]),
        lambda: Mask.from_bits(b"\x01\x00", size=4),
        lambda: Mask.from_bits(b"\x1f", size=4),
        lambda: Mask(np.array([True]), size=4),
        lambda: Mask.from_array(np.array([0, 1])),
    ],
)
def test_masks_of_another_model_are_refused(make):
    with pytest.raises(MaskMismatch):
        make()


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: Mask.prefix(5, size=4), "blocks"),
        (lambda: Mask.prefix(-1, size=4), "blocks"),
        (lambda: Mask.prefix(1, size=4, block=5), "block"),
        (lambda: Mask.prefix(0, size=0), "size"),
        (lambda: Mask.prefix(1, size=2, order=np.array([0, 0])), "order"),
        (lambda: Mask.prefix(True, size=2), "blocks"),
    ],
)
def test_impossible_masks_are_refused_by_name(make, argument):
    with pytest.raises(InvalidInput) as error:
        make()
    assert error.value.argument == argument
