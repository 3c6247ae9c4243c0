"""What every method must keep."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from sensecrypt import InvalidInput
from sensecrypt.policies import POLICIES, Policy, get_policy
from tests.policies.situations import decide, situation

BY_RATIO = {name: policy for name, policy in POLICIES.items() if name not in ("plaintext", "full", "sensecrypt")}
policies = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
ratio_policies = pytest.mark.parametrize("policy", BY_RATIO.values(), ids=BY_RATIO)
layouts = pytest.mark.parametrize(
    ("size", "block", "ordered"),
    [
        (1000, 1, False),
        (1000, 1, True),
        (630, 63, False),
        (630, 63, True),
        (1000, 63, False),
        (1000, 63, True),
    ],
)


@policies
@layouts
def test_the_mask_is_cut_as_the_situation_says(policy: Policy, size, block, ordered):
    client = situation(size, block, ordered=ordered, ratio=1.0, budget=1.0)
    mask = decide(policy, client).mask
    assert (mask.size, mask.block) == (size, block)
    assert (mask.order is not None) == ordered
    if ordered:
        assert np.array_equal(mask.order, client.order)


@policies
@layouts
def test_the_same_client_decides_the_same(policy: Policy, size, block, ordered):
    first, second = (decide(policy, situation(size, block, ordered=ordered, ratio=1.0)) for _ in range(2))
    assert first == second


@ratio_policies
@layouts
@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_the_ratio_is_met_exactly(policy: Policy, size, block, ordered, ratio):
    client = situation(size, block, ordered=ordered, ratio=ratio)
    mask = decide(policy, client).mask
    assert mask.blocks == client.ratio_blocks == int(ratio * client.blocks)


@ratio_policies
def test_the_ratio_in_exact_numbers(policy: Policy):
    assert decide(policy, situation(1000, ratio=0.29)).mask.count == 290
    assert decide(policy, situation(1000, 63, ratio=0.29)).mask.blocks == 4
    assert decide(policy, situation(1000, 1000, ratio=1.0)).mask.count == 1000


@ratio_policies
@pytest.mark.parametrize("block", [1, 63])
def test_another_client_chooses_otherwise(policy: Policy, block):
    assert decide(policy, situation(block=block)).mask != decide(policy, situation(block=block, seed=1)).mask


@layouts
def test_plaintext_full_and_sensecrypt_encrypt_nothing_everything_and_the_budget(size, block, ordered):
    client = situation(size, block, ordered=ordered)
    assert decide(POLICIES["plaintext"], client).mask.count == 0
    assert decide(POLICIES["full"], client).mask.count == size
    assert decide(POLICIES["sensecrypt"], client).mask.blocks == int(0.3 * client.blocks)


@ratio_policies
@pytest.mark.parametrize(
    ("size", "block", "ratio"), [(1000, 63, 0.05), (1000, 1000, 0.9), (7, 1, 0.1), (1000, 1, 1e-9)]
)
def test_a_ratio_of_no_block_is_refused_with_one_that_works(policy: Policy, size, block, ratio):
    with pytest.raises(InvalidInput, match="choose at least") as error:
        decide(policy, situation(size, block, ratio=ratio))
    assert error.value.argument == "ratio"
    advice = re.search(r"at least (\S+),", error.value.fix)
    assert advice is not None
    assert decide(policy, situation(size, block, ratio=float(advice[1]))).mask.blocks == 1


@ratio_policies
@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_a_ratio_that_is_no_share_is_refused(policy: Policy, ratio):
    with pytest.raises(InvalidInput) as error:
        decide(policy, situation(ratio=ratio))
    assert error.value.argument == "ratio"


@policies
def test_what_a_policy_does_not_ask_for_it_does_not_need(policy: Policy):
    missing = {}
    if not policy.needs_gradient:
        missing |= {"gradient": None, "sensitivity": None}
    if policy.ranks_by is None:
        missing["ranking"] = None
    if policy.propose is None:
        missing["exposed"] = None
    assert decide(policy, situation(**missing)) == decide(policy, situation())


def test_policies_are_found_by_name():
    assert [get_policy(name) for name in POLICIES] == list(POLICIES.values())
    with pytest.raises(InvalidInput, match=r"choose one of .*maskcrypt") as error:
        get_policy("maskcrpyt")
    assert error.value.argument == "policy"


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("sensecrypt", "sensitivity"),
        ("high_sensitivity", "sensitivity"),
        ("low_sensitivity", "sensitivity"),
        ("fedml_he", "ranking"),
        ("maskcrypt", "agreed"),
    ],
)
def test_a_situation_without_what_a_policy_asks_for_is_refused(name, missing):
    client = replace(situation(630, 63, ordered=False, ratio=0.5), **{missing: None})
    with pytest.raises(InvalidInput, match=missing):
        get_policy(name).choose(client)
