"""A fleet's folder without a fleet: making one takes a second, starting one half a minute."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sensecrypt.lab.fleet.folder import Description, FleetFolder
from sensecrypt.lab.fleet.making import make_fleet, write_addresses
from tests.keyservice.conftest import pki as pki
from tests.keyservice.conftest import server as server


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> FleetFolder:
    """Two clients with node keys. Tests read it only."""
    folder = FleetFolder(tmp_path_factory.mktemp("fleets") / "fleet")
    description = Description(2, True, port=20_000)
    make_fleet(folder, description)
    write_addresses(folder, description)
    return folder


@pytest.fixture
def own(made, tmp_path) -> FleetFolder:
    """A copy that a test may change."""
    shutil.copytree(made.path, tmp_path / "fleet")
    return FleetFolder(Path(tmp_path / "fleet"))
