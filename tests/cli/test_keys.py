from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.crypto import keyfile
from sensecrypt.crypto.keyfile import read_public, read_secret

PASSPHRASE = "correct horse battery"


@pytest.fixture(autouse=True)
def cheap_scrypt(monkeypatch):
    monkeypatch.setattr(keyfile, "SCRYPT", {"n": 2**10, "r": 8, "p": 1})
    monkeypatch.delenv("SENSECRYPT_PASSPHRASE", raising=False)


def generate(path, *more, **invoke):
    arguments = ["keys", "generate", "--profile", "insecure-test", "--out", str(path), *more]
    return CliRunner().invoke(main, arguments, **invoke)


def test_a_key_from_a_prompt(tmp_path):
    result = generate(tmp_path / "k.json", input=f"{PASSPHRASE}\n{PASSPHRASE}\n")
    assert result.exit_code == 0
    assert "gives no security" in result.output
    assert PASSPHRASE not in result.output
    assert read_secret(tmp_path / "k.json", PASSPHRASE)


def test_a_key_from_the_environment_and_from_a_file(tmp_path):
    assert generate(tmp_path / "a.json", env={"SENSECRYPT_PASSPHRASE": PASSPHRASE}).exit_code == 0
    (tmp_path / "phrase").write_text(f"{PASSPHRASE} too\nsecond line\n")
    assert generate(tmp_path / "b.json", "--passphrase-file", str(tmp_path / "phrase")).exit_code == 0
    assert read_secret(tmp_path / "a.json", PASSPHRASE)
    assert read_secret(tmp_path / "b.json", f"{PASSPHRASE} too")


def test_show_and_public_need_no_passphrase(tmp_path):
    generate(tmp_path / "k.json", env={"SENSECRYPT_PASSPHRASE": PASSPHRASE})
    shown = CliRunner().invoke(main, ["keys", "show", str(tmp_path / "k.json"), "--json"])
    facts = json.loads(shown.output)
    assert (facts["profile"], facts["slots"], facts["security_bits"]) == ("insecure-test", 15, 0)
    assert "fingerprint" in CliRunner().invoke(main, ["keys", "show", str(tmp_path / "k.json")]).output
    arguments = ["keys", "public", str(tmp_path / "k.json"), "--out", str(tmp_path / "p.json")]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    assert read_public(tmp_path / "p.json").fingerprint == facts["fingerprint"]
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 2
    assert again.output.count("\n") == 1
    assert CliRunner().invoke(main, [*arguments, "--force"]).exit_code == 0


def test_mistakes_are_one_line_and_exit_code_2(tmp_path):
    (tmp_path / "empty").write_text("")
    (tmp_path / "not.json").write_text("{")
    generate(tmp_path / "k.json", env={"SENSECRYPT_PASSPHRASE": PASSPHRASE})
    for result in (
        generate(tmp_path / "k.json", env={"SENSECRYPT_PASSPHRASE": PASSPHRASE}),
        generate(tmp_path / "new.json", env={"SENSECRYPT_PASSPHRASE": "short"}),
        generate(tmp_path / "new.json", "--passphrase-file", str(tmp_path / "empty")),
        CliRunner().invoke(main, ["keys", "show", str(tmp_path / "not.json")]),
        CliRunner().invoke(main, ["keys", "show", str(tmp_path / "none.json")]),
        CliRunner().invoke(main, ["keys", "generate", "--profile", "rot13", "--out", "x"]),
    ):
        assert result.exit_code == 2
        assert "Traceback" not in result.output
        assert "Error: " in result.output
    assert not (tmp_path / "new.json").exists()
