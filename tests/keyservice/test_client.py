"""The client behind a network that loses answers: it tries again, and nothing happens twice."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from urllib.parse import urlparse

import httpx
import pytest

from sensecrypt.errors import InvalidInput, Unreachable
from sensecrypt.keyservice.http.client import DkmsClient
from tests.keyservice.conftest import certificate
from tests.keyservice.rounds import CLIENTS, Played


class LossyNetwork(httpx.BaseTransport):
    """Delivers everything to the service, and loses the first answers on the way back."""

    def __init__(self, inner: httpx.BaseTransport, losses: int):
        self._inner, self._losses, self.lost = inner, losses, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._inner.handle_request(request)
        answer.read()
        if self.lost < self._losses:
            self.lost += 1
            raise httpx.ReadError("the connection was lost")
        return answer

    def close(self) -> None:
        self._inner.close()


@contextlib.contextmanager
def through_losses(losses: int, server, role: str, name: str, **more):
    with server.identity(role, name, **{"pause": 0.01, **more}) as identity:
        network = identity._http._transport = LossyNetwork(identity._http._transport, losses)
        yield identity
        assert network.lost == losses


def test_lost_answers_double_nothing(server):
    played = Played(server)
    round_ = played.round()
    with through_losses(2, server, "aggregator", "aggregator") as aggregator:
        aggregator.register_round(round_)
    protected = played.protect(round_, 0)
    with through_losses(2, server, "client", "phone-0") as client:
        client.send_tag(protected.tag, round_)
    aggregate = played.upload(round_, protected_before={0: protected}).to_bytes(round_)
    with through_losses(3, server, "aggregator", "aggregator") as aggregator:
        assert aggregator.release(aggregate, round_).contributors == tuple(range(CLIENTS))
    for event, times in (("round-registered", 1), ("tag-taken", CLIENTS), ("decrypted", 1)):
        assert len(played.events(event)) == times


def test_it_gives_up_in_one_line(server):
    with (
        through_losses(3, server, "client", "phone-0", tries=3) as client,
        pytest.raises(Unreachable, match="closed the connection without an answer") as failure,
    ):
        client.about()
    assert "\n" not in str(failure.value)


def test_a_body_that_breaks_off_is_nothing_to_worry_about(server):
    played = Played(server)
    round_ = played.register(played.round())
    crt, key = certificate(server.pki, "client", "phone-0")
    context = ssl.create_default_context(cafile=str(server.pki / "ca.crt"))
    context.load_cert_chain(crt, key)
    where = f"/v1/runs/{played.run}/rounds/0/clusters/0/model/0/tag"
    head = f"PUT {where} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n"
    target = urlparse(server.url)
    with (
        socket.create_connection((target.hostname, target.port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
    ):
        wrapped.sendall(head.encode() + bytes(100))
    with played.client(0) as client:
        client.send_tag(played.protect(round_, 0).tag, round_)
    assert "Traceback" not in server.stderr()


def test_nobody_there_and_somebody_else_there(pki):
    crt, key = certificate(pki, "client", "phone-0")
    files = {"certificate": crt, "key": key, "authority": pki / "ca.crt"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        DkmsClient(f"https://127.0.0.1:{port}", **files, tries=2, pause=0.01) as client,
        pytest.raises(Unreachable, match="cannot be connected to; check that it runs"),
    ):
        client.about()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9443",
        "127.0.0.1:9443",
        "localhost:9443",
        "dkms",
        "",
        "https://",
        "https://a:b",
        "https://[::1",
    ],
)
def test_an_address_that_is_none_is_told_at_once(pki, url):
    crt, key = certificate(pki, "client", "phone-0")
    with pytest.raises(InvalidInput, match="write https://host:port") as failure:
        DkmsClient(url, certificate=crt, key=key, authority=pki / "ca.crt")
    assert failure.value.argument == "url"


class OtherVersion:
    """A service of ours of another version, or none of ours, behind a certificate of ours."""

    def __init__(self, pki, protocol: str | None):
        import http.server

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                if protocol is not None:
                    self.send_header("SenseCrypt-Protocol", protocol)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate(pki, "server", "dkms"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.mark.parametrize(("protocol", "told"), [("2", "speaks protocol 2, this is protocol 1"), (None, "no protocol")])
def test_a_service_of_another_version(pki, protocol, told):
    crt, key = certificate(pki, "client", "phone-0")
    with (
        OtherVersion(pki, protocol) as other,
        DkmsClient(other.url, certificate=crt, key=key, authority=pki / "ca.crt") as client,
        pytest.raises(Unreachable, match=f"{told}.*install the same version"),
    ):
        client.about()
