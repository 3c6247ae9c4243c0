"""The threat model's matrix: every cell names a test that exists or an adversary of `sensecrypt attack`.

And what is lost by definition is lost: these tests would fail if the docs called something lost that is not.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sensecrypt import Mask, sketch
from sensecrypt.algo.sketching import rotate
from sensecrypt.lab.assess.labels import COLLUSION
from sensecrypt.lab.attacks.ladder import ADVERSARIES
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import decrypt_aggregate
from sensecrypt.protocol.messages import Tag, Upload
from sensecrypt.protocol.protection import model_format
from sensecrypt.protocol.tags import wrap
from tests.protocol.test_round import Cluster

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "threats.md").read_text()
NONE = "–"  # noqa: RUF001
STATES = {"kept", "limited", "lost"}


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows, without headings and rules."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not set(line) <= set("|- ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def sections() -> dict[str, str]:
    """The text below every heading of third level."""
    parts = re.split(r"^### (.+)\n", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def matrix() -> tuple[list[str], dict[str, list[str]]]:
    """Properties, and the states of each component."""
    overview = PAGE.split("## The matrix")[1].split("## ")[0]
    head, *body = rows(overview)
    return head[1:], {re.sub(r"\[(.+?)\]\(.+?\)", r"\1", cells[0]): cells[1:] for cells in body}


@cache
def names_in(path: str) -> set[str]:
    """The names of all tests in a file."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_overview_says_what_the_sections_say():
    properties, states = matrix()
    assert list(states) == list(sections())
    for component, text in sections().items():
        said = {cells[0]: cells[1] for cells in rows(text)[1:]}
        shown = {name: state for name, state in zip(properties, states[component], strict=True) if state != NONE}
        assert said == shown, component
        assert set(shown.values()) <= STATES


@pytest.mark.parametrize("component", sections())
def test_every_cell_is_backed(component):
    for cells in rows(sections()[component])[1:]:
        named = re.findall(r"`(tests/\S+?\.py)::(\w+)`", cells[3])
        attacks = re.findall(r"`attack: ([\w-]+)`", cells[3])
        assert named or attacks, (component, cells)
        assert not [f"{path}::{name}" for path, name in named if name not in names_in(path)]
        assert not [name for name in attacks if name not in (*ADVERSARIES, COLLUSION)]


SIZE = 40


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(size=SIZE, blinded=True)


@pytest.fixture
def protected(cluster):
    return cluster.protect([Mask.prefix(cluster.round.blocks // 2, size=SIZE, block=cluster.round.block)] * 4)


def encoded(cluster: Cluster, client: int) -> np.ndarray:
    return model_format(cluster.round).encode(cluster.models[client], cluster.round.weights[client])


def test_aggregator_and_key_server_together_read_an_upload(cluster, protected):
    total = RoundSum(cluster.round, cluster.public)
    total.add(protected[2].upload, sender=2)
    blinding = Tag.from_bytes(protected[2].tag, cluster.round).blinding
    _, values, *_ = decrypt_aggregate(total.close(), cluster.round, cluster.secret, None, blindings=[blinding])
    assert values.tolist() == encoded(cluster, 2).tolist()


def test_a_recorded_seed_shows_what_is_blinded_and_nothing_that_is_encrypted(cluster, protected):
    upload = Upload.from_bytes(protected[2].upload, cluster.round)
    blinding = Tag.from_bytes(protected[2].tag, cluster.round).blinding
    rest = ~upload.mask.to_array()
    assert 0 < rest.sum() < SIZE
    assert len(upload.plain) == rest.sum()  # nothing else travels outside of ciphertexts
    seen = wrap(upload.plain - blinding.values(cluster.round)[rest], cluster.round)
    assert seen.tolist() == encoded(cluster, 2)[rest].tolist()


def test_key_server_and_a_client_together_recognise_data_by_their_sketch():
    rng = np.random.default_rng(0)
    candidates = np.abs(rng.standard_t(3, (10, 3000)))
    received = sketch(candidates[7], seed=b"a client's" * 2)  # what the key server gets before it rotates it
    guesses = [sketch(each, seed=b"a client's" * 2) for each in candidates]
    assert int(np.argmin([np.linalg.norm(received - guess) for guess in guesses])) == 7
    rotated = rotate(received, seed=b"of the key server" * 2)  # what the aggregator gets
    assert min(np.linalg.norm(rotated - guess) for guess in guesses) > 0.5
