from __future__ import annotations

import json
import stat
import tomllib

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from sensecrypt.cli.passphrase import find_passphrase
from sensecrypt.client.identity import read_identity
from sensecrypt.errors import InvalidInput, ServiceError
from sensecrypt.keyservice.http.certificates import check_pair
from sensecrypt.keyservice.http.policy import read_policy
from sensecrypt.keyservice.http.storagecipher import read_root
from sensecrypt.lab.fleet.folder import Description, FleetFolder
from sensecrypt.lab.fleet.making import check_certificates, make_fleet


def test_parties_know_the_service_and_themselves(made):
    for name in ("aggregator", "client-0", "client-1"):
        identity = read_identity(made.identity(name))
        assert identity.url == "https://127.0.0.1:20001"
        check_pair(identity.certificate, identity.key, identity.authority)
        assert identity.state.is_dir()
    assert made.run("a").parent.resolve() == read_identity(made.identity("aggregator")).state.resolve()


def test_flower_knows_superlink(made):
    config = tomllib.loads((made.flower_home / "config.toml").read_text())
    assert config["superlink"]["deploy"]["address"] == "127.0.0.1:20000"
    assert config["superlink"]["deploy"]["root-certificates"] == str(made.pki / "ca.crt")


def test_ports_are_in_a_row():
    assert Description(2, False, port=7).ports == {"superlink": 7, "dkms": 8, "node-0": 9, "node-1": 10}


def test_the_key_service_opens_with_the_passphrase_that_is_the_owners_alone(made):
    assert stat.S_IMODE(made.passphrase.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    read_root(made.dkms / "root.json", find_passphrase(made.passphrase, confirm=False))
    assert read_policy(made.dkms / "policy.toml").min_contributors == 2


def test_node_keys_are_what_flower_reads(made):
    path = made.node_key("node-1")
    key = load_ssh_private_key(path.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp384r1"
    assert load_ssh_public_key(path.with_name("node-1.pub").read_bytes()) == key.public_key()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nodes_install_apps_apart(made):
    assert made.node_home("node-0") != made.node_home("node-1")
    assert made.node_home("node-1").is_dir()


def test_a_new_fleet_stands_in_an_empty_folder_and_leaves_nothing_else(tmp_path):
    (tmp_path / "fleet").mkdir()
    make_fleet(FleetFolder(tmp_path / "fleet"), Description(2, False))
    assert [path.name for path in tmp_path.iterdir()] == ["fleet"]
    assert FleetFolder(tmp_path / "fleet").read() == Description(2, False)


def test_a_folder_that_is_something_else_stays_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ServiceError, match="has other files; choose a new folder"):
        make_fleet(FleetFolder(tmp_path), Description(2, False))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ServiceError, match="has no fleet; make one with"):
        FleetFolder(tmp_path).read()


def test_a_failed_make_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sensecrypt.lab.fleet.making._make_node_key", fail)
    with pytest.raises(KeyboardInterrupt):
        make_fleet(FleetFolder(tmp_path / "fleet"), Description(2, True))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("clients", [1, 0, -3, 1001, True])
def test_a_fleet_has_at_least_two_clients(clients):
    with pytest.raises(InvalidInput, match=r"clients: is .*; pass (at least 2|a whole number)"):
        Description(clients, False)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "cannot be read"),
        ("[]", "another version"),
        ('{"version": 1, "clients": 2, "tls": false}', "another version"),
        ('{"version": 2, "clients": 1, "tls": false}', "is damaged"),
        ('{"version": 2, "moon": 1}', "is damaged"),
    ],
)
def test_a_damaged_description_is_one_line(tmp_path, content, problem):
    (tmp_path / "fleet.json").write_text(content)
    with pytest.raises(ServiceError, match=problem):
        FleetFolder(tmp_path).read()


def test_a_folder_is_held_by_one_fleet(own):
    with pytest.raises(ServiceError, match=r"has no fleet that is up; start it, in another terminal"):
        own.refuse_unless_up()
    with own.held():
        assert own.refuse_unless_up().clients == 2
        with pytest.raises(ServiceError, match="has its fleet up already"), own.held():
            pass
    with own.held():
        pass


def test_pids_are_forgotten(own):
    description = own.read()
    own.write(Description(description.clients, description.tls, port=description.port, pids={"dkms": 12}))
    assert json.loads((own.path / "fleet.json").read_text())["pids"] == {"dkms": 12}
    own.forget_pids()
    assert own.read() == description


def test_every_certificate_is_checked(own):
    check_certificates(own, own.read())
    (own.pki / "superlink.key").write_bytes((own.pki / "dkms.key").read_bytes())
    with pytest.raises(InvalidInput, match="is not the key of"):
        check_certificates(own, own.read())
