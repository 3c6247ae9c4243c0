"""A real key service with the limits that `sensecrypt dkms init` writes, for hostile parties."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sensecrypt.keyservice.http.policy import Policy
from tests.keyservice.conftest import Server, make_server, pki, server

__all__ = ["pki", "server"]


@pytest.fixture(scope="module")
def strict(tmp_path_factory, pki) -> Iterator[Server]:
    limits = {"min_contributors": Policy.min_contributors, "colluders": Policy.colluders}
    server = make_server(tmp_path_factory.mktemp("strict") / "service", pki, **limits)
    server.start()
    yield server
    assert server.end() == 0
    assert "Traceback" not in server.stderr()
