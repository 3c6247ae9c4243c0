"""What parties of a fleet tell each other is read strictly: whatever else arrives is refused, never guessed at."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
from collections.abc import Set
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.client.identity import read_identity
from sensecrypt.errors import CertificateError, InvalidInput, MissingExtra, Rejected
from sensecrypt.keyservice.pki import create_authority, issue
from sensecrypt.protocol.envelope import serialize
from sensecrypt.protocol.requests import (
    NEEDED,
    Assignment,
    Challenge,
    Enrolment,
    Invitation,
    Parts,
    facts_from_bytes,
    require_parts,
)
from sensecrypt.records import Facts
from sensecrypt.transports import flower
from sensecrypt.transports.flower.proof import Statement, check_proof, prove
from sensecrypt.transports.flower.settings import read_settings
from sensecrypt.transports.flower.wire import STYPE, pack, unpack

naturals = st.integers(0, 2**31)


@given(
    st.builds(
        Assignment,
        naturals,
        naturals,
        naturals,
        st.floats(0, 1),
        st.none() | st.tuples(naturals, naturals),
        st.booleans(),
    )
)
def test_an_assignment_arrives_as_it_was_sent(assignment):
    assert Assignment.from_bytes(assignment.to_bytes()) == assignment


def test_an_enrolment_arrives_as_it_was_sent():
    sent = Enrolment(10, "ab", 1.5, np.array([1.0, 2.0]), None, 2.5)
    got = Enrolment.from_bytes(sent.to_bytes())
    assert (got.size, got.initial, got.clip, got.cpus, got.bandwidth) == (10, "ab", 1.5, None, 2.5)
    assert got.row.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "enrolment",
    [
        Enrolment(0, "", None, np.zeros(1)),
        Enrolment(1, "", 0.0, np.zeros(1)),
        Enrolment(1, "", float("nan"), np.zeros(1)),
        Enrolment(1, "", None, np.array([np.nan])),
        Enrolment(1, "", None, np.zeros(1), cpus=-1.0),
        Enrolment(1, "", None, np.zeros(1), cpus=float("inf")),
        Enrolment(1, "", None, np.zeros(1), cpus=1e300),
        Enrolment(2**63, "", None, np.zeros(1)),
        Enrolment(1, "", None, np.array([1e308])),
    ],
)
def test_an_impossible_enrolment_is_rejected(enrolment):
    with pytest.raises(Rejected):
        Enrolment.from_bytes(enrolment.to_bytes())


@pytest.mark.parametrize(
    "fields",
    [{"budget": "0x1.8p1"}, {"budget": "nan"}, {"budget": "?"}, {"start": "1"}, {"start": "a,b"}, {"start": "1,2,3"}],
)
def test_an_impossible_assignment_is_rejected(fields):
    good = {"cluster": 0, "number": 0, "attempt": 0, "budget": "0x1p0", "start": "", "refresh": 0}
    Assignment.from_bytes(serialize("assignment", good, {}))
    with pytest.raises(Rejected):
        Assignment.from_bytes(serialize("assignment", {**good, **fields}, {}))


def message(facts: dict[str, object]) -> bytes:
    """Facts as a client that need not be ours sends them."""
    return serialize("facts", {"facts": json.dumps(facts)}, {})


@pytest.mark.parametrize(
    "facts",
    [
        {"train_seconds": -1},
        {"train_seconds": float("nan")},
        {"train_seconds": "1"},
        {"train_seconds": True},
        {"bytes_up": float("inf")},
        {"bytes_up": 0.5},
        {"bytes_up": 10**400},
        {"train_seconds": 10**400},
        {"encrypted_share": 1.1},
        {"secret": 1},
        {"decided_by": "x" * 100},
        {"decided_by": "<b>\n"},
        {"feasible": 1},
        {"failure": "x" * 500},
        {"failure": "\x1b[2J"},
        {"layers": {"x" * 500: [1, 2]}},
        {"layers": {"a\n": [1, 2]}},
        {"layers": {"a": [1, -2]}},
        {"layers": {str(each): [1, 2] for each in range(20_000)}},
        [1],
        "text",
    ],
)
def test_impossible_facts_are_rejected(facts):
    with pytest.raises(Rejected):
        facts_from_bytes(message(facts), "enrol")


def test_possible_facts_are_kept():
    facts = {"train_seconds": 0.5, "bytes_up": 7, "mi": None, "decided_by": "budget", "feasible": True}
    assert facts_from_bytes(message(facts), "enrol") == Facts(**facts)


@pytest.mark.parametrize("kind", ["rank", "train", "finish"])
def test_a_reply_tells_all_that_budgets_and_tables_are_made_of(kind):
    whole = dict.fromkeys(NEEDED[kind], 0) | ({"decided_by": "", "feasible": True} if kind == "train" else {})
    assert facts_from_bytes(message(whole), kind) == Facts(**whole)
    for name in NEEDED[kind]:
        with pytest.raises(Rejected, match=f"facts without {name}"):
            facts_from_bytes(message({key: value for key, value in whole.items() if key != name}), kind)


def read(content: RecordDict, allowed: Set[str] = frozenset()) -> Parts:
    """A message with part `a`, as whoever receives it reads it."""
    return require_parts(unpack(content), needed={"a"}, allowed=allowed)


def test_parts_arrive_as_they_were_sent():
    assert read(pack({"a": b"1", "b": b""}), allowed={"b"}) == {"a": b"1", "b": b""}


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"sensecrypt": ConfigRecord({"a": b"1"})}),
        RecordDict({"sensecrypt": ArrayRecord({}), "more": ArrayRecord({})}),
        RecordDict({"sensecrypt": ArrayRecord({"a": Array("bytes", (1,), "numpy.ndarray", b"1")})}),
        RecordDict({"sensecrypt": ArrayRecord({"a": Array("bytes", (2,), STYPE, b"1")})}),
        RecordDict({"sensecrypt": ArrayRecord({"a": Array("int8", (1,), STYPE, b"1")})}),
        pack({"b": b""}),
        pack({"a": b"", "b": b""}),
        pack({"failure": b"I do not want to"}),
    ],
)
def test_other_content_is_rejected(content):
    with pytest.raises(Rejected):
        read(content)


def test_what_a_terminal_would_obey_is_made_harmless():
    with pytest.raises(Rejected) as error:
        read(pack({"failure": b"\x1b[31mred\nWARNING forged"}))
    assert str(error.value) == "·[31mred·WARNING forged"


@given(st.binary(max_size=200), st.sampled_from(["BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F64", "U8", "I64", "F4"]))
def test_whatever_bytes_arrive_are_read_or_rejected(body, dtype):
    fields = {"format": "sensecrypt", "version": "1", "kind": "enrolment"}
    fields |= {"size": "1", "samples": "1", "initial": "", "cpus": "", "bandwidth": ""}
    tensor = {"dtype": dtype, "shape": [len(body)], "data_offsets": [0, len(body)]}
    header = json.dumps({"__metadata__": fields, "row": tensor}).encode()
    with contextlib.suppress(Rejected):
        Enrolment.from_bytes(len(header).to_bytes(8, "little") + header + body)
    with contextlib.suppress(Rejected):
        check_proof(len(header).to_bytes(8, "little") + header + body, Statement("r", 1, "n"), authority=Path())


def test_a_failure_is_told_and_cut_short():
    with pytest.raises(Rejected, match=r"^no data$"):
        read(pack({"failure": b"no data"}))
    with pytest.raises(Rejected) as error:
        read(pack({"failure": b"x" * 10_000}))
    assert len(str(error.value)) == 400


@pytest.fixture(scope="module")
def issued(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proof-pki")
    create_authority(folder)
    issue(folder, role="client", name="phone")
    issue(folder, role="aggregator", name="summer")
    return folder


class TestProof:
    statement = Statement("run", 7, "nonce")

    def proof(self, issued, name="phone", statement=statement):
        return prove(statement, certificate=issued / f"{name}.crt", key=issued / f"{name}.key")

    def test_it_names_the_client(self, issued):
        assert check_proof(self.proof(issued), self.statement, authority=issued / "ca.crt") == "phone"

    @pytest.mark.parametrize(
        "other", [Statement("other", 7, "nonce"), Statement("run", 8, "nonce"), Statement("run", 7, "old")]
    )
    def test_it_holds_for_nothing_else(self, issued, other):
        with pytest.raises(Rejected, match="does not hold"):
            check_proof(self.proof(issued, statement=other), self.statement, authority=issued / "ca.crt")

    def test_another_authority_is_refused(self, issued, tmp_path):
        create_authority(tmp_path)
        issue(tmp_path, role="client", name="phone")
        with pytest.raises(Rejected, match="does not hold"):
            check_proof(self.proof(tmp_path), self.statement, authority=issued / "ca.crt")

    def test_another_role_is_refused(self, issued):
        with pytest.raises(Rejected, match="role aggregator"):
            check_proof(self.proof(issued, "summer"), self.statement, authority=issued / "ca.crt")

    def test_a_damaged_one_is_refused(self, issued):
        good = self.proof(issued)
        with pytest.raises(Rejected):
            check_proof(good[:-1] + bytes([good[-1] ^ 1]), self.statement, authority=issued / "ca.crt")
        with pytest.raises(Rejected):
            check_proof(b"", self.statement, authority=issued / "ca.crt")

    def test_an_old_and_a_new_authority_may_stand_in_one_file(self, issued, tmp_path):
        create_authority(tmp_path)
        both = tmp_path / "both.crt"
        both.write_bytes((tmp_path / "ca.crt").read_bytes() + (issued / "ca.crt").read_bytes())
        assert check_proof(self.proof(issued), self.statement, authority=both) == "phone"

    def test_without_a_key_there_is_a_clear_error(self, issued, tmp_path):
        with pytest.raises(CertificateError, match="cannot be read"):
            prove(self.statement, certificate=issued / "phone.crt", key=tmp_path / "none.key")


class TestSettings:
    def test_settings_are_a_run_s(self):
        told = read_settings({"sensecrypt.run": "a", "sensecrypt.settings.rounds": "3", "other": 1})
        assert (told.run, told.config.training.rounds, told.deadline) == ("a", 3, 3600.0)

    @pytest.mark.parametrize(
        ("more", "fault"),
        [
            ({"sensecrypt.run": ""}, "is ''"),
            ({"sensecrypt.run": "../x"}, "is '../x'"),
            ({"sensecrypt.rounds": 3}, "no key of a fleet's run"),
            ({"sensecrypt.settings.round": 3}, "did you mean 'rounds'"),
            ({"sensecrypt.deadline": 0}, "sensecrypt.deadline"),
            ({"sensecrypt.deadline": math.nan}, "sensecrypt.deadline"),
            ({"sensecrypt.enrol-seconds": math.inf}, "sensecrypt.enrol-seconds"),
            ({"sensecrypt.settings.grace": "nan"}, "grace: is nan"),
            ({"sensecrypt.settings.beta": "1,inf"}, "beta: is inf"),
            (
                {"sensecrypt.settings.policy": "fedml_he", "sensecrypt.settings.layout": "blocks"},
                "layout: blocks is for one machine",
            ),
            (
                {"sensecrypt.settings.key_mode": "shared-key", "sensecrypt.settings.profile": "paillier-2048"},
                "is for one machine",
            ),
            ({"sensecrypt.settings.crypto": "calibrated"}, "is for one machine"),
            ({"sensecrypt.settings.messages": "keep"}, "is for one machine"),
            (
                {"sensecrypt.settings.preset": "paper"},
                "key_mode: shared-key is for one machine; use sensecrypt run, or set key_mode=dkms in a fleet",
            ),
        ],
    )
    def test_what_a_fleet_cannot_do_is_refused(self, more, fault):
        with pytest.raises(InvalidInput, match=fault.replace(".", r"\.")):
            read_settings({"sensecrypt.run": "a", **more})


class TestPartyFile:
    good = 'url = "u"\ncertificate = "c"\nkey = "k"\nauthority = "a"\nstate = "s"\n'

    def test_paths_are_relative_to_the_file(self, tmp_path):
        (tmp_path / "p.toml").write_text(self.good + "cpus = 2\n")
        identity = read_identity(tmp_path / "p.toml")
        assert (identity.key, identity.cpus, identity.bandwidth) == (tmp_path / "k", 2.0, None)

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("url", "is not TOML"),
            ('url = "u"', "certificate: is missing"),
            (good + 'sate = "x"', "did you mean 'state'"),
            (good + "cpus = 0", "cpus: is 0"),
            (good + "least_share = 2", "least_share: is 2"),
            (good + "cpus = inf", "cpus: is inf"),
            (good + "bandwidth = nan", "bandwidth: is nan"),
            (good + "least_share = nan", "least_share: is nan"),
        ],
    )
    def test_a_file_that_cannot_be_used_is_named(self, tmp_path, text, fault):
        (tmp_path / "p.toml").write_text(text)
        with pytest.raises(InvalidInput, match=fault):
            read_identity(tmp_path / "p.toml")

    def test_a_file_that_is_not_there_is_named(self, tmp_path):
        with pytest.raises(InvalidInput, match=r"p\.toml: cannot be read"):
            read_identity(tmp_path / "p.toml")


def test_a_challenge_arrives_as_it_was_sent():
    assert Challenge.from_bytes(Challenge("abc").to_bytes()) == Challenge("abc")
    assert Invitation.from_bytes(Invitation(bytes(32)).to_bytes()) == Invitation(bytes(32))


def test_the_server_app_loads_neither_pytorch_nor_anything_secret():
    code = (
        "import sys; from sensecrypt.transports.flower import server_app; server_app(); "
        "print(*(m for m in sys.modules if m == 'torch' or (m.startswith('sensecrypt') and 'secret' in m)"
        " or m in ('sensecrypt.protocol.keyserver', 'sensecrypt.crypto.keys', 'sensecrypt.crypto.keyfile')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(("app", "extras"), [("server_app", "flower"), ("client_app", "flower,torch")])
def test_without_flower_there_is_one_clear_line(app, extras, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=f"sensecrypt\\[{extras}\\]"):
        getattr(flower, app)()
