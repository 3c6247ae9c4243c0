from __future__ import annotations

import ast
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.config import make_config
from sensecrypt.errors import MissingExtra, ServiceError
from sensecrypt.lab.fleet import commands
from sensecrypt.lab.fleet.app import write_app
from sensecrypt.lab.fleet.ports import check_ports, find_ports, is_free

PYPROJECT_BY_FLOWER = """
import sys
from pathlib import Path
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate
from flwr.common.config import flatten_dict, get_fab_config
config, warnings = load_and_validate(Path(sys.argv[1]) / "pyproject.toml")
assert not warnings, warnings
print(flatten_dict(get_fab_config(build_fab_from_disk(Path(sys.argv[1])))["tool"]["flwr"]["app"]["config"]))
"""
NODE_CONFIG_BY_FLOWER = """
import sys
from flwr.common.config import parse_config_args
for text in sys.argv[1:]:
    print(parse_config_args([text])["sensecrypt-identity"])
"""


def flower(code: str, *arguments: str) -> str:
    """What Flower makes of it, in a process of its own: its imports warn."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_flower_reads_the_path_of_a_party_file_as_it_is():
    paths = ["/a/client.toml", "/a b/c=d/client.toml", "/it's/client.toml", '/a"b/client.toml', "/a\\b/client.toml"]
    told = flower(NODE_CONFIG_BY_FLOWER, *(commands.node_config(Path(path)) for path in paths))
    assert told.splitlines() == paths


@pytest.mark.parametrize("path", ["/'\"/client.toml", "/'\\/client.toml", "/a\nb/client.toml"])
def test_a_path_that_flower_cannot_read_is_refused(path):
    with pytest.raises(ServiceError, match="choose a folder without quotes"):
        commands.node_config(Path(path))


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_node_config_is_toml_of_that_path(text):
    try:
        written = commands.node_config(Path(text))
    except ServiceError:
        return
    assert tomllib.loads(written) == {"sensecrypt-identity": str(Path(text))}


def test_every_part_has_its_port_and_listens_on_this_machine_only(made):
    description = made.read()
    for name, port in description.ports.items():
        command = commands.command_of(name, made, description)
        assert command[-4:] == ["--host", "127.0.0.1", "--port", str(port)]


def test_with_tls_nothing_is_insecure_and_without_it_all_of_flower_says_so(made):
    with_tls, without = made.read(), type(made.read())(2, False, port=20_000)
    for name in ("superlink", "node-0"):
        assert "--insecure" not in commands.command_of(name, made, with_tls)
        assert "--insecure" in commands.command_of(name, made, without)
    assert "--enable-supernode-auth" in commands.command_of("superlink", made, with_tls)


def test_environments(made, monkeypatch):
    monkeypatch.setenv("SENSECRYPT_DATA", "/data")
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    superlink = commands.environment_of("superlink", made)
    node = commands.environment_of("node-1", made)
    assert superlink["SENSECRYPT_AGGREGATOR"] == str(made.identity("aggregator"))
    assert "SENSECRYPT_AGGREGATOR" not in node
    assert node["FLWR_HOME"] == str(made.node_home("node-1"))
    for environment in (superlink, node):
        assert environment["SENSECRYPT_DATA"] == "/data"
        assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
    beside = str(Path(sys.executable).parent)
    assert superlink["PATH"].startswith(beside)
    assert node["PATH"].startswith(beside)
    assert superlink[commands.TAG] != node[commands.TAG]


def test_superexec_and_client_apps_are_forks_of_the_supernode(tmp_path):
    """Each of them runs its own command in a process of its own; others start as from Flower."""
    said, other = tmp_path / "said", tmp_path / "other"
    code = f"""
import os, random, sys, time
import numpy.random as drawing
from sensecrypt.lab.fleet import supernode
from flwr.supercore.superexec.executor import subprocess_executor
from flwr.supernode import start_client_internal

def said(what):
    open({str(said)!r}, "a").write(f"{{what}} {{os.getpid()}} {{os.getppid()}} {{' '.join(sys.argv[1:])}}\\n")

def client_app():
    said("client_app")
    open({str(tmp_path / "drawn")!r}, "a").write(f"{{drawing.random()}} {{random.random()}}\\n")
    sys.exit(3)

def superexec():
    said("superexec")
    start = subprocess_executor.subprocess.Popen
    start(["flwr-clientapp", "one"])
    start(["flwr-clientapp", "two"])
    start([sys.executable, "-c", "open({str(other)!r}, 'w')"])
    while open({str(said)!r}).read().count("client_app") < 2:
        time.sleep(0.02)
    open({str(tmp_path / "done")!r}, "w")

def node():
    said("supernode")
    start_client_internal.subprocess.Popen(["flower-superexec", "--runtime"])
    while not (os.path.exists({str(other)!r}) and os.path.exists({str(tmp_path / "done")!r})):
        start_client_internal.time.sleep(3)

supernode._IMPORTED_ONCE = ()
supernode.flwr_clientapp, supernode.flower_superexec, supernode.flower_supernode = client_app, superexec, node
sys.argv = ["supernode", "--superlink"]
supernode.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = sorted(line.split() for line in said.read_text().splitlines())
    assert [(line[0], line[3]) for line in lines] == [
        ("client_app", "one"),
        ("client_app", "two"),
        ("superexec", "--runtime"),
        ("supernode", "--superlink"),
    ]
    one, two, exec_, node = lines
    assert len({line[1] for line in lines}) == 4
    assert one[2] == two[2] != exec_[1]  # both are forks of one process, which is not SuperExec
    assert exec_[2] == node[1]
    drawn = (tmp_path / "drawn").read_text().split()
    assert len(set(drawn)) == 4  # no fork draws the numbers of another


def test_a_supernode_asks_for_messages_more_often_than_flowers(monkeypatch):
    from sensecrypt.lab.fleet import supernode

    waited = []
    monkeypatch.setattr(supernode, "_fork", lambda work: 0)
    monkeypatch.setattr(supernode, "flower_supernode", lambda: supernode.start_client_internal.time.sleep(3))
    for name in ("subprocess", "time"):
        monkeypatch.setattr(supernode.start_client_internal, name, getattr(supernode.start_client_internal, name))
    monkeypatch.setattr(supernode.time, "sleep", waited.append)
    supernode.main()
    assert waited == [0.25]


def test_flower_that_is_not_installed_is_a_missing_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(commands, "_BESIDE", tmp_path)
    with pytest.raises(MissingExtra, match=r"sensecrypt\[dkms,flower,torch\]"):
        commands.flower_command("flower-superlink")


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(ServiceError, match=rf"127\.0\.0\.1:{port}: is in use by another program"):
            check_ports(port, 1)
    with pytest.raises(ServiceError, match="choose a lower one"):
        check_ports(65_530, 20)
    check_ports(find_ports(3), 3)


def test_flower_takes_the_app_and_reads_the_same_settings(tmp_path):
    said = {
        "rounds": 5,
        "cpus": [[24, 16], [8, 4.5]],
        "learning_rate": 0.1,
        "partition": "iid",
        "model": "",
        "beta": [1, 2.5],
    }
    config = make_config({**said, "preset": "paper", "max_mi": -1})
    app = write_app(tmp_path / "app", config, run="2026-11-16", seconds={"deadline": 30, "enrol-seconds": 0.5})
    told = ast.literal_eval(flower(PYPROJECT_BY_FLOWER, str(app)))
    assert told.pop("sensecrypt.run") == "2026-11-16"
    assert told.pop("sensecrypt.deadline") == 30.0
    assert told.pop("sensecrypt.enrol-seconds") == 0.5
    settings = {key.removeprefix("sensecrypt.settings."): value for key, value in told.items()}
    assert all(isinstance(value, str) for value in settings.values())
    assert make_config(settings) == config
