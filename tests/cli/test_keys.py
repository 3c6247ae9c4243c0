from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.crypto import passphrase
from sensecrypt.crypto.keyfile import read_secret
from sensecrypt.crypto.publicfile import read_public

PASSPHRASE = "correct horse battery"


@pytest.fixture(autouse=True)
def cheap_scrypt(monkeypatch):
    monkeypatch.setattr(passphrase, "SCRYPT", {"n": 2**10, "r": 8, "p": 1})
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


@pytest.mark.parametrize(
    "command", [["keys", "generate", "--out", "k.json"], ["dkms", "init", "--folder", "service"]], ids=" ".join
)
def test_without_a_terminal_nobody_is_asked(tmp_path, command):
    environment = {key: value for key, value in os.environ.items() if key != "SENSECRYPT_PASSPHRASE"}
    done = subprocess.run(
        [sys.executable, "-m", "sensecrypt", *command],
        capture_output=True,
        text=True,
        input=f"{PASSPHRASE}\n{PASSPHRASE}\n",
        env=environment,
        cwd=tmp_path,
        start_new_session=True,  # without this terminal
    )
    told = "passphrase: there is no terminal to ask for it; use --passphrase-file or $SENSECRYPT_PASSPHRASE"
    assert (done.returncode, done.stderr.splitlines()) == (2, [f"Error: {told}"])
    assert list(tmp_path.iterdir()) == []


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


def test_a_link_to_nowhere_is_not_taken_for_success(tmp_path):
    (tmp_path / "d.json").symlink_to(tmp_path / "nowhere")
    result = generate(tmp_path / "d.json", env={"SENSECRYPT_PASSPHRASE": PASSPHRASE})
    assert (result.exit_code, "exists already" in result.output, "written" in result.output) == (2, True, False)


def test_force_does_not_destroy_a_secret_key(tmp_path):
    key = tmp_path / "k.json"
    generate(key, env={"SENSECRYPT_PASSPHRASE": PASSPHRASE})
    result = CliRunner().invoke(main, ["keys", "public", str(key), "--out", str(key), "--force"])
    assert (result.exit_code, "would destroy" in result.output) == (2, True)
    assert read_secret(key, PASSPHRASE)


def test_a_passphrase_that_is_not_utf8_is_refused_and_not_told(tmp_path):
    (tmp_path / "phrase").write_bytes(b"correct horse \xff\n")
    for result in (
        generate(tmp_path / "k.json", "--passphrase-file", str(tmp_path / "phrase")),
        generate(tmp_path / "k.json", env={"SENSECRYPT_PASSPHRASE": "correct horse \udcff"}),
    ):
        assert (result.exit_code, "passphrase: is not valid UTF-8" in result.output) == (2, True)
        error, seen = result.exception, []
        while error is not None:
            seen.append(repr(error.args))
            error = error.__cause__ or error.__context__
        assert "horse" not in result.output + "".join(seen)
    assert not (tmp_path / "k.json").exists()


def test_a_passphrase_file_that_cannot_be_read_is_a_clear_error(tmp_path, monkeypatch):
    (tmp_path / "phrase").write_text(PASSPHRASE)

    def fail(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", fail)
    result = generate(tmp_path / "k.json", "--passphrase-file", str(tmp_path / "phrase"))
    assert (result.exit_code, "cannot be read (Permission denied)" in result.output) == (2, True)
