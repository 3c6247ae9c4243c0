from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from sensecrypt.errors import InvalidInput
from sensecrypt.report import Watch


@pytest.fixture
def serve():
    """Starts servers of folders, and ends them."""
    started = []

    def start(folder):
        server = Watch(folder, 0)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        started.append((server, thread))
        return server

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_the_page_is_served_with_a_strict_policy(serve, run):
    status, headers, html = ask(serve(run))
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert 'data-live="yes"' in html


def test_it_listens_on_this_machine_alone_and_answers_to_its_own_name_only(serve, run):
    server = serve(run)
    assert server.server_address[0] == "127.0.0.1"
    port = server.server_port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", ""):
        for path in ("/", "/content.json", "/events"):
            status, _, text = ask(server, path, Host=host)
            assert (status, text) == (421, "wrong host; use 127.0.0.1\n")
    assert ask(server, Host=f"localhost:{port}")[0] == 200


def test_nothing_else_is_there(serve, run):
    server = serve(run)
    for path in ("/run.json", "/../run.json", "/records.jsonl", "/%2e%2e/", "/?x"):
        assert ask(server, path)[0] == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(server, method=method)[0] == 501


def read_event(stream) -> str:
    return next(line for line in iter(stream.readline, b"") if line.startswith(b"event:")).decode().strip()


def test_it_waits_for_a_run_and_tells_of_every_change(serve, played, tmp_path):
    folder = tmp_path / "later"
    server = serve(folder)
    assert "Waiting for a run" in ask(server)[2]
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
        stream = connection.makefile("rb")
        assert read_event(stream) == "event: change"
        shutil.copytree(played, folder)
        assert read_event(stream) == "event: change"
        stream.close()
    content = json.loads(ask(server, "/content.json")[2])
    assert "finished, 3 rounds" in content["html"]
    assert set(content["data"]) == {"charts", "tables"}


def test_what_cannot_be_shown_is_told_on_the_page(serve, run):
    (run / "run.json").write_text('{"version": 99, "config": {}}')
    assert "is a run of version 99" in ask(serve(run))[2]


def test_a_port_that_is_taken(serve, run):
    server = serve(run)
    with pytest.raises(InvalidInput, match="another --port"):
        Watch(run, server.server_port)


def test_ctrl_c_ends_it_cleanly(run):
    command = [sys.executable, "-m", "sensecrypt", "watch", str(run), "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.search(r"http://127\.0\.0\.1:\d+/", line)
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()  # or leaving the block would wait for ever
    assert process.returncode == 0
    assert "Traceback" not in errors
