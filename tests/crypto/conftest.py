"""Keys for the tests: made once a session. `insecure` is small and fast; the others are what users get."""

from __future__ import annotations

import functools

import pytest

from sensecrypt import generate_keypair

keypair = functools.cache(generate_keypair)


@pytest.fixture(scope="session")
def insecure():
    return keypair("insecure-test")


@pytest.fixture(scope="session")
def real():
    return keypair("paillier-2048")


@pytest.fixture(scope="session")
def subgroup():
    return keypair("paillier-2048-subgroup")
