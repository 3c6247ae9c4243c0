"""A client's conditions: what is allowed, what is refused and in which words, and files that contradict themselves."""

from __future__ import annotations

import pytest

from sensecrypt.client.conditions import OUTSIDE, Conditions
from sensecrypt.client.identity import read_identity
from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.round import Round

TOLD = {"min_contributors": 3, "fixed_groups": False}
GOOD = 'url = "u"\ncertificate = "c"\nkey = "k"\nauthority = "a"\nstate = "s"\n'


def round_of(*weights: float) -> Round:
    return Round("r", 0, 0, "model", 8, get_profile("insecure-test"), dict(enumerate(weights)))


def test_without_a_word_the_default_preset_is_allowed():
    Conditions().require_run(make_config({}), TOLD)
    Conditions().require_round(round_of(0.3, 0.3, 0.4), 0)


@pytest.mark.parametrize(
    ("settings", "told", "reason"),
    [
        ({"layout": "blocks"}, {}, "condition layouts: the run asks for blocks, this client allows prefix"),
        (
            {"layout": "individual", "profile": "paillier-2048-scalar"},
            {},
            "condition layouts: the run asks for individual, this client allows prefix",
        ),
        ({"learning_rate": 5}, {}, "condition learning_rate: the run asks for 5, this client allows 1e-06 to 1"),
        ({"batch_size": 1}, {}, "condition batch_size: the run asks for 1, this client allows 8 to 1024"),
        ({"local_epochs": 500}, {}, "condition local_epochs: the run asks for 500, this client allows 1 to 10"),
        (
            {},
            {"min_contributors": 2},
            "condition least_contributors: the run asks for 2 in a sum, this client requires 3",
        ),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_without_a_word_a_run_that_asks_for_more_is_refused(settings, told, reason, caplog):
    with pytest.raises(Rejected) as refusal:
        Conditions().require_run(make_config(settings), {**TOLD, **told})
    assert (str(refusal.value), refusal.value.code) == (reason, OUTSIDE)
    assert f"nothing is sent; {reason}" in caplog.text  # in the client's own log


def test_a_client_may_refuse_sketches_and_sums_of_any_groups():
    with pytest.raises(Rejected, match="condition sketches: the run asks for clustering auto"):
        Conditions(sketches=False).require_run(make_config({}), TOLD)
    Conditions(sketches=False).require_run(make_config({"clustering": "none"}), TOLD)
    with pytest.raises(Rejected, match="condition fixed_groups"):
        Conditions(fixed_groups=True).require_run(make_config({}), TOLD)
    Conditions(fixed_groups=True).require_run(make_config({}), {**TOLD, "fixed_groups": True})


def test_whole_weights_are_uploaded_by_who_allows_it_only():
    asking = make_config({"uploads": "weights"})
    with pytest.raises(Rejected, match="condition uploads: the run asks for weights, this client allows updates"):
        Conditions().require_run(asking, TOLD)
    Conditions(uploads="weights").require_run(asking, TOLD)


def test_a_client_may_allow_more():
    allowing = Conditions(layouts=("prefix", "blocks"), learning_rate=(0.0, 10.0), least_contributors=2, colluders=0)
    allowing.require_run(make_config({"layout": "blocks", "learning_rate": 5}), {"min_contributors": 2})


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ((0.5, 0.5), "condition least_members: the run asks for a cluster of 2, this client requires 3"),
        (
            (0.8, 0.0033, 0.1967),
            "condition largest_share: the run asks for 99.6% of the sum without the 1 largest others, "
            "this client allows 70%",
        ),
        (
            (0.3, *[0.02] * 10, 0.5),  # 60 % of the honest weight, beside ten that average out
            "condition largest_share: the run asks for 95.7% of the sum of squares without the 1 largest others, "
            "this client allows 90%: small updates do not hide a large one",
        ),
        (
            (0.2, 0.001, 0.3, 0.499),
            "condition largest_ratio: the run asks for 200 times the smallest weight, this client allows 20",
        ),
    ],
)
def test_a_round_whose_weights_leave_a_client_alone_is_refused(weights, reason):
    with pytest.raises(Rejected) as refusal:
        Conditions().require_round(round_of(*weights), 0)
    assert (str(refusal.value), refusal.value.code) == (reason, OUTSIDE)
    Conditions().require_round(round_of(0.3, 0.3, 0.2, 0.2), 0)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("learning_rate = [0.5, 0.1]", "learning_rate: is from 0.5 to 0.1, which is empty"),
        ("layouts = []", "layouts: is empty, so that no run is allowed"),
        ("least_contributors = 3\ncolluders = 2", "least_contributors: is 3, but 2 may collude"),
        ("sketches = false\nclear_sensitivities = true", "clear_sensitivities: is true, but sketches, which"),
        ('layouts = ["rows"]', "layouts: is 'rows'"),
        ('layouts = "prefix"', "layouts: is not a list"),
        ("batch_size = 8", "batch_size: is not a pair"),
        ('batch_size = ["a", 8]', "batch_size: is not a number"),
        ('batches = "fresh"', "batches: is 'fresh'; choose one of 'local', 'seeded'"),
        ('uploads = "all"', "uploads: is 'all'"),
        ("sketches = 1", "sketches: is 1; write true or false"),
        ("least_members = 1", "least_members: is 1"),
        ("largest_share = 0", "largest_share: is 0"),
        ("colluders = -1", "colluders: is -1"),
        ("least_member = 4", "did you mean 'least_members'"),
    ],
)
def test_a_file_that_contradicts_itself_is_one_line_at_the_start(tmp_path, line, problem):
    (tmp_path / "p.toml").write_text(f"{GOOD}{line}\n")
    with pytest.raises(InvalidInput, match=problem) as refusal:
        read_identity(tmp_path / "p.toml")
    assert "\n" not in str(refusal.value)


def test_a_file_says_its_conditions(tmp_path):
    (tmp_path / "p.toml").write_text(f'{GOOD}layouts = ["blocks"]\nbatch_size = [1, 4]\nbatches = "seeded"\n')
    conditions = read_identity(tmp_path / "p.toml").conditions
    assert conditions == Conditions(layouts=("blocks",), batch_size=(1.0, 4.0), batches="seeded")
