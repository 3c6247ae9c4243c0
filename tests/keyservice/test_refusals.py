"""Whatever is refused gets a clear answer, with a code and what to do, and leaves a line in the audit log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from sensecrypt.errors import CertificateError, Refused, Unreachable
from sensecrypt.keyservice.http.addresses import MESSAGE_TYPE, round_address
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.keyservice.pki import create_authority
from sensecrypt.protocol.round import Round, address_of, describe_round
from tests.keyservice.conftest import Server, certificate, failed_handshakes, make_server, wait_for_handshake
from tests.keyservice.rounds import SAMPLES, Played


@pytest.fixture(scope="module")
def played(server) -> Played:
    return Played(server)


_numbers = iter(range(100, 1000))


@pytest.fixture
def round_(played) -> Round:
    """A registered round of its own."""
    return played.register(played.round(next(_numbers)))


def refusal_of(call) -> Refused:
    with pytest.raises(Refused) as refusal:
        call()
    assert refusal.value.reason
    assert refusal.value.fix
    return refusal.value


def lines_of(server: Server, code: str) -> int:
    return server.refusals().count(code)


class TestWeights:
    """A sum in which one member has all the weight is that member's model."""

    @pytest.mark.parametrize(
        ("weights", "reason"),
        [
            ({0: 1 - 3e-9, 1: 1e-9, 2: 1e-9, 3: 1e-9}, "one client is 100.0% of the sum, but at most 70% is allowed"),
            ({0: 0.5, 1: 0.49, 2: 0.01}, "one client has 50 times the weight of another in the sum, but"),
        ],
    )
    def test_one_that_outweighs_the_others_is_refused(self, played, server, weights, reason):
        before = lines_of(server, "too-few-contributors")
        round_ = Round(played.run, next(_numbers), 0, "model", played.size, played.profile, weights)
        with played.aggregator() as aggregator:
            refusal = refusal_of(lambda: aggregator.register_round(round_))
        assert refusal.code == "too-few-contributors"
        assert reason in refusal.reason
        assert lines_of(server, "too-few-contributors") == before + 1

    @pytest.mark.parametrize(
        ("samples", "contributors", "reason"),
        [
            ({0: 60, 1: 4, 2: 4, 3: 39}, (0, 1, 2), "one client is 85.5% of the sum"),
            ({0: 3, 1: 4, 2: 2, 3: 1}, (1,), "1 contributor(s), but at least 2"),
            ({0: 1, 1: 1, 2: 1, 3: 2}, (0, 1), "40% of the cluster's weight is in the sum, but the quorum is 50%"),
        ],
    )
    def test_what_counts_is_who_is_in_the_sum(self, server, samples, contributors, reason):
        """An aggregator that leaves the heavy ones out would open the model of the one that it kept."""
        played = Played(server, samples=samples)
        round_ = played.register(played.round())
        aggregate = played.upload(round_, contributors)
        refusal = refusal_of(lambda: played.release(aggregate, round_))
        assert (refusal.code, reason in refusal.reason) == ("too-few-contributors", True), refusal.reason

    def test_an_aggregator_sets_no_weights(self, played):
        """Weights follow from the first number of samples that each client reports, whatever comes later."""
        others = {0: 0.3, 1: 0.3, 2: 0.2, 3: 0.2}
        round_ = Round(played.run, next(_numbers), 0, "model", played.size, played.profile, others)
        refusal = refusal_of(lambda: played.register(round_))
        assert refusal.code == "other-weights"
        assert "client 0 has a weight of 0.3, the samples that members reported give 0.1923" in refusal.reason
        with played.client(0) as client:
            client.report_samples(played.run, 1000)
        played.play(played.round(next(_numbers)))
        with played.aggregator() as aggregator:
            assert aggregator.samples(played.run) == SAMPLES

    def test_a_member_that_reported_no_samples_is_in_no_round(self, server):
        played = Played(server)
        with played.admin() as admin:
            asked = {"size": 100, "profile": "insecure-test", "members": played.members, "min_contributors": 2}
            admin.register_run("untold", **asked)
        round_ = replace(played.round(), run="untold")
        assert refusal_of(lambda: played.register(round_)).code == "no-samples"
        with server.identity("client", "stranger") as stranger:
            assert refusal_of(lambda: stranger.report_samples(played.run, 3)).code == "not-a-member"
        with played.client(0) as client:
            for impossible in (0, -1, 2**31, "nan"):
                assert refusal_of(lambda n=impossible: client.report_samples("untold", n)).code == "invalid-request"

    @pytest.mark.parametrize("weight", [np.nan, np.inf, -0.5, 0.0])
    def test_a_weight_that_is_none_harms_nobody_elses_round(self, played, round_, weight):
        told = describe_round(wrong := played.round(next(_numbers)))
        heavy = np.array([wrong.weights[0]], dtype="<f8").tobytes()
        body = told.replace(heavy, np.array([weight], dtype="<f8").tobytes(), 1)
        with played.server.browser("aggregator", "aggregator") as browser:
            answer = browser.put(round_address(wrong), content=body, headers={"Content-Type": MESSAGE_TYPE})
        assert (answer.status_code, answer.json()["code"]) == (422, "rejected")
        assert "\n" not in answer.json()["detail"]
        assert played.release(played.upload(round_), round_)

    def test_weights_that_do_not_sum_to_one_are_no_round(self, played):
        round_ = played.round(next(_numbers))
        heavy = np.array([round_.weights[0]], dtype="<f8").tobytes()
        body = describe_round(round_).replace(heavy, np.array([0.001], dtype="<f8").tobytes(), 1)
        with played.server.browser("aggregator", "aggregator") as browser:
            answer = browser.put(round_address(round_), content=body, headers={"Content-Type": MESSAGE_TYPE})
        assert (answer.json()["code"], "shares of 1" in answer.json()["detail"]) == ("rejected", True)


class TestWhoAsks:
    def test_without_a_certificate(self, server):
        before = lines_of(server, "no-certificate")
        with server.browser() as browser:
            for path in ("/v1/about", "/metrics", "/openapi.json", "/v1/runs/x/key", "/nowhere"):
                answer = browser.get(path)
                assert answer.status_code == 401
                assert answer.headers["content-type"] == "application/problem+json"
                problem = answer.json()
                assert (problem["code"], problem["status"]) == ("no-certificate", 401)
                assert "client certificate" in problem["fix"]
        assert lines_of(server, "no-certificate") == before + 5
        assert server.audit()[-1]["path"] == "/nowhere"

    def test_a_certificate_of_another_authority(self, server, tmp_path):
        create_authority(tmp_path / "other")
        before = failed_handshakes(server, "local issuer")
        with server.browser("admin", "admin", pki=tmp_path / "other") as browser, pytest.raises(httpx.TransportError):
            browser.get("/v1/about")
        wait_for_handshake(server, "local issuer", more_than=before)

    def test_our_client_says_so_before_and_after_it_connects(self, server, tmp_path):
        other = tmp_path / "other"
        create_authority(other)
        crt, key = certificate(other, "admin", "admin")
        with pytest.raises(CertificateError, match="was not issued by"):
            DkmsClient(server.url, certificate=crt, key=key, authority=server.pki / "ca.crt")
        both = tmp_path / "both.crt"  # an authority file that also holds the service's: the service refuses then
        both.write_bytes((other / "ca.crt").read_bytes() + (server.pki / "ca.crt").read_bytes())
        client = DkmsClient(server.url, certificate=crt, key=key, authority=both, tries=2, pause=0.01)
        with (
            client,
            pytest.raises(
                Unreachable, match=r"it refuses this certificate \(tlsv1 alert unknown ca\); use a certificate of"
            ),
        ):
            client.about()

    def test_a_service_of_another_authority(self, server, tmp_path):
        other = tmp_path / "other"
        create_authority(other)
        crt, key = certificate(other, "admin", "admin")
        client = DkmsClient(server.url, certificate=crt, key=key, authority=other / "ca.crt")
        with client, pytest.raises(Unreachable, match=r"its certificate is not accepted.*pass the authority"):
            client.about()

    def test_a_certificate_that_is_for_servers(self, server):
        with pytest.raises(httpx.TransportError), server.browser("server", "other-server") as browser:
            browser.get("/v1/about")  # for servers only: TLS itself refuses it

    def test_every_address_has_its_roles(self, played, round_):
        base = f"/v1/runs/{played.run}"
        where = f"{base}/rounds/{round_.number}/clusters/0/model/0"
        addresses = {
            ("PUT", base): {"admin", "aggregator"},
            ("PUT", f"{base}/members/5"): {"client"},
            ("PUT", f"{base}/sketch"): {"client"},
            ("PUT", f"{base}/samples/5"): {"client"},
            ("PUT", where): {"aggregator"},
            ("GET", f"{where}/task"): {"client"},
            ("PUT", f"{where}/tag"): {"client"},
            ("GET", f"{where}/tags"): {"aggregator"},
            ("PUT", f"{where}/aggregate"): {"aggregator"},
            ("GET", f"{where}/model"): {"client"},
            ("GET", f"{where}/sum"): {"aggregator"},
            ("GET", "/metrics"): {"admin", "monitor"},
        }
        names = {"admin": "admin", "aggregator": "aggregator", "client": "phone-0", "monitor": "prometheus"}
        for role, name in names.items():
            with played.server.browser(role, name) as browser:
                for (method, address), roles in addresses.items():
                    answer = browser.request(method, address)
                    code = answer.json()["code"] if answer.status_code >= 400 else None
                    assert (code == "wrong-role") == (role not in roles), (role, method, address, code)


class TestWhatIsAskedFor:
    def test_another_clusters_model(self, played):
        number = next(_numbers)
        mine, theirs = played.round(number, members=[0, 1]), played.round(number, cluster=1, members=[2, 3])
        for each in (mine, theirs):
            played.play(each)
        assert played.model(theirs, 2).size == played.size
        before = lines_of(played.server, "not-a-member")
        asks = (
            lambda client: client.moved(address_of(theirs), theirs.size),
            lambda client: client.task(address_of(theirs)),
        )
        for ask in asks:
            with played.client(0) as client:
                assert refusal_of(lambda ask=ask, client=client: ask(client)).code == "not-a-member"
        assert lines_of(played.server, "not-a-member") == before + 2
        assert played.server.audit()[-1]["name"] == "phone-0"

    def test_a_second_decryption(self, played, round_):
        aggregate = played.upload(round_)
        first = played.release(aggregate, round_)
        assert played.release(aggregate, round_) == first  # the same again: what came out, and nothing is decrypted
        other = replace(aggregate, plain=aggregate.plain + 1)
        before = lines_of(played.server, "already-decrypted")
        assert refusal_of(lambda: played.release(other, round_)).code == "already-decrypted"
        again = played.round(round_.number, attempt=1)
        assert refusal_of(lambda: played.register(again)).code == "already-decrypted"
        assert lines_of(played.server, "already-decrypted") == before + 2
        assert len([line for line in played.events("decrypted") if line["round"] == round_.number]) == 1

    def test_too_few_contributors(self, played, round_):
        one = played.upload(round_, [2])
        refusal = refusal_of(lambda: played.release(one, round_))
        assert (refusal.code, "at least 2" in refusal.reason) == ("too-few-contributors", True)
        alone = played.round(next(_numbers), members=[1])
        assert refusal_of(lambda: played.register(alone)).code == "too-few-contributors"
        assert played.server.refusals()[-2:] == ["too-few-contributors"] * 2

    def test_an_aggregate_that_does_not_match_the_tags(self, played, round_):
        whole = played.upload(round_)
        altered = replace(whole, plain=whole.plain + 1)
        assert refusal_of(lambda: played.release(altered, round_)).code == "tags-mismatch"
        assert played.server.refusals()[-1] == "tags-mismatch"
        with played.client(0) as client:
            assert refusal_of(lambda: client.moved(address_of(round_), round_.size)).code == "not-released"
        assert played.release(whole, round_).contributors == (0, 1, 2, 3)

    def test_a_round_whose_sums_fail_again_and_again_is_closed(self, played, round_):
        whole = played.upload(round_)
        for error in (1, 2, 3, 4):
            wrong = replace(whole, plain=whole.plain + error)
            assert refusal_of(lambda wrong=wrong: played.release(wrong, round_)).code == "tags-mismatch"
        assert refusal_of(lambda: played.release(whole, round_)).code == "too-many-failures"

    def test_a_run_whose_sums_fail_in_round_after_round_is_closed(self, server):
        """Each failure answers a question: an aggregator and its friends must not have thousands."""
        played = Played(server)
        for number in range(3):
            round_ = played.register(played.round(number))
            whole = played.upload(round_)
            for error in (1, 2, 3, 4):
                wrong = replace(whole, plain=whole.plain + error)
                assert refusal_of(lambda wrong=wrong, at=round_: played.release(wrong, at)).code == "tags-mismatch"
        last = played.register(played.round(3))
        whole = played.upload(last)
        assert refusal_of(lambda: played.release(whole, last)).code == "run-closed"
        other = Played(server)
        assert other.play(other.round())

    def test_ciphertexts_that_do_not_decrypt(self, played, round_):
        whole = played.upload(round_)
        for bad in (np.zeros_like(whole.ciphertexts), np.full_like(whole.ciphertexts, 255)):
            wrong = replace(whole, ciphertexts=bad)
            assert refusal_of(lambda wrong=wrong: played.release(wrong, round_)).code == "tags-mismatch"
        assert played.release(whole, round_)

    def test_a_missing_tag_a_stranger_and_a_doubled_contributor(self, played, round_):
        whole = played.upload(round_, tags={0, 1, 2})
        assert refusal_of(lambda: played.release(whole, round_)).code == "no-tag"
        for contributors, code in (((0, 1, 9), "not-a-member"), ((0, 1, 1), "doubled-contributor")):
            wrong = replace(whole, contributors=contributors)
            assert refusal_of(lambda wrong=wrong: played.release(wrong, round_)).code == code

    def test_a_second_or_foreign_tag(self, played, round_):
        mine, theirs = played.protect(round_, 0), played.protect(round_, 1)
        with played.client(0) as client:
            assert refusal_of(lambda: client.send_tag(theirs.tag, round_)).code == "not-a-member"
            client.send_tag(mine.tag, round_)
            played.models[0, 0] += 1
            changed = played.protect(round_, 0)
            played.models[0, 0] -= 1
            assert refusal_of(lambda: client.send_tag(changed.tag, round_)).code == "doubled-tag"
            assert refusal_of(lambda: client.send_tag(mine.upload, round_)).code == "rejected"

    def test_a_round_that_takes_a_client_from_another_cluster(self, played):
        number = next(_numbers)
        played.register(played.round(number, members=[0, 1]))
        both = played.round(number, cluster=1, members=[1, 2])
        assert refusal_of(lambda: played.register(both)).code == "two-clusters"

    def test_a_superseded_attempt(self, played, round_):
        aggregate = played.upload(round_)
        again = played.register(played.round(round_.number, attempt=1))
        assert refusal_of(lambda: played.release(aggregate, round_)).code == "superseded"
        assert refusal_of(lambda: played.register(played.round(round_.number, members=[0, 1]))).code == "conflict"
        assert played.release(played.upload(again), again)

    def test_rounds_outside_the_run(self, played):
        number = next(_numbers)
        stranger = Round(played.run, number, 0, "model", played.size, played.profile, {0: 0.5, 9: 0.5})
        larger = Round(played.run, number, 0, "model", played.size + 1, played.profile, {0: 0.5, 1: 0.5})
        nowhere = Round("no-such-run", number, 0, "model", played.size, played.profile, {0: 0.5, 1: 0.5})
        for wrong, code in ((stranger, "outside-policy"), (larger, "outside-policy"), (nowhere, "unknown-run")):
            assert refusal_of(lambda wrong=wrong: played.register(wrong)).code == code
        with played.client(0) as client:
            assert refusal_of(lambda: client.task(address_of(played.round(number))).seed).code == "unknown-round"

    def test_runs_outside_the_policy(self, played):
        good = {"size": 100, "profile": "insecure-test", "members": {0: "a", 1: "b"}, "min_contributors": 2}
        wrong = [
            {"min_contributors": 1},
            {"min_contributors": 3},
            {"profile": "rot13"},
            {"members": {0: "a", 1: "a"}},
            {"size": 200_000_000},
            {"first": [(90, 101)]},
        ]
        with played.admin() as admin:
            for change in wrong:
                refusal = refusal_of(lambda change=change: admin.register_run("bad", **{**good, **change}))
                assert refusal.code == "outside-policy", change
            assert refusal_of(lambda: admin.register_run(played.run, **good)).code == "conflict"
            assert refusal_of(lambda: admin.register_run("bad", **{**good, "size": 0})).code == "invalid-request"
            assert refusal_of(lambda: admin.run("bad")).code == "unknown-run"


class TestBodies:
    def test_an_overlong_body_is_not_even_kept(self, played, round_):
        where = f"/v1/runs/{played.run}/rounds/{round_.number}/clusters/0/model/0"
        before = lines_of(played.server, "too-long")
        with played.server.browser("client", "phone-0") as browser:
            answer = browser.put(f"{where}/tag", content=bytes(200_000))
            assert (answer.status_code, answer.json()["code"]) == (413, "too-long")
            answer = browser.put(f"{where}/tag", content=(bytes(1000) for _ in range(300)))  # no length announced
            assert (answer.status_code, answer.json()["code"]) == (413, "too-long")
        with played.server.browser("aggregator", "aggregator") as browser:
            answer = browser.put(f"{where}/aggregate", content=bytes(1_000_000))
            assert (answer.status_code, answer.json()["code"]) == (413, "too-long")
        assert lines_of(played.server, "too-long") == before + 3

    def test_malformed_bodies_and_addresses(self, played, round_):
        where = f"/v1/runs/{played.run}/rounds/{round_.number}/clusters/0/model/0"
        with played.server.browser("aggregator", "aggregator") as browser:
            for content in (b"", b"\xff" * 50, b"{}"):
                assert browser.put(f"{where}/aggregate", content=content).json()["code"] == "rejected"
                assert browser.put(where, content=content).json()["code"] == "rejected"
            for path in (where.replace("model/0", "model/-1"), where.replace("model", "secrets"), "/v1/runs/../x"):
                assert browser.put(path, content=b"").json()["code"] in ("invalid-request", "not-found")
            assert browser.delete(where).json()["code"] == "wrong-method"

    def test_another_version_of_the_protocol(self, played):
        with played.server.browser("admin", "admin") as browser:
            answer = browser.get("/v1/about", headers={"SenseCrypt-Protocol": "2"})
        assert (answer.status_code, answer.json()["code"]) == (400, "other-version")
        assert "same version" in answer.json()["fix"]


def test_limits_of_rate_and_names(tmp_path: Path, pki):
    server = make_server(
        tmp_path / "service", pki, burst=12, requests_per_second=1, decryptions_per_minute=1, denied=["phone-9"]
    ).start()
    try:
        with server.browser("client", "phone-9") as browser:
            assert browser.get("/v1/about").json()["code"] == "denied"
        with server.browser("client", "phone-8") as browser:
            answers = [browser.get("/v1/about") for _ in range(20)]
        assert [answer.status_code for answer in answers][:10] == [200] * 10
        limited = [answer for answer in answers if answer.status_code == 429]
        assert limited[0].json()["code"] == "rate-limited"
        assert limited[0].headers["retry-after"]
        assert {"denied", "rate-limited"} <= set(server.refusals())
    finally:
        server.end()


def test_decryptions_are_limited_as_well(tmp_path: Path, pki):
    server = make_server(tmp_path / "service", pki, decryptions_per_minute=1).start()
    try:
        played = Played(server)
        played.play(played.round(0))
        second = played.register(played.round(1))
        aggregate = played.upload(second)
        with server.identity("aggregator", "aggregator", tries=1) as aggregator:
            refusal = refusal_of(lambda: aggregator.release(aggregate.to_bytes(second), second))
        assert refusal.code == "rate-limited"
        assert len(played.events("decrypted")) == 1
    finally:
        server.end()


def test_strangers_cannot_fill_the_log(tmp_path: Path, pki):
    server = make_server(tmp_path / "service", pki).start()
    try:
        with server.browser() as browser:
            for _ in range(90):
                assert browser.get("/v1/about").status_code == 401
        assert 60 <= server.refusals().count("no-certificate") < 80
    finally:
        server.end()
