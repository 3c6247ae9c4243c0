"""Serves the page of a folder on 127.0.0.1, updated during the run.

It answers only requests with its own address as their Host, which prevents DNS rebinding. It has three paths and no
files: the page, its content, and server-sent events that announce new content.
"""

from __future__ import annotations

import json
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sensecrypt.errors import InvalidInput, SenseCryptError
from sensecrypt.report.figures import Page
from sensecrypt.report.folder import stamp
from sensecrypt.report.render import render, render_main, security_policy
from sensecrypt.report.runpage import broken_page, waiting_page
from sensecrypt.report.writing import folder_page

HOST = "127.0.0.1"
LOOK_EVERY = 0.5  # seconds
BREATHE_EVERY = 10.0  # seconds between comments on an idle connection, which detect that the reader is gone


class Watch(ThreadingHTTPServer):
    """The server of one folder."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, folder: Path, port: int) -> None:
        """Listen; port 0 means any free port."""
        self.folder = folder
        self._lock = threading.Lock()
        self._known: tuple[object, Page] | None = None
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            problem = f"cannot be used ({getattr(error, 'strerror', None) or error})"
            raise InvalidInput(f"port {port}", problem, "choose another --port, or 0 for any that is free") from None

    @property
    def address(self) -> str:
        """The URL of the page."""
        return f"http://{HOST}:{self.server_port}/"

    def page(self) -> Page:
        """The page of the folder as it is now; an empty or damaged folder gives a page that says so."""
        with self._lock:
            now = stamp(self.folder)
            if self._known is None or self._known[0] != now:
                self._known = (now, self._read())
            return self._known[1]

    def _read(self) -> Page:
        if not any((self.folder / name).exists() for name in ("run.json", "compare.json")):
            return waiting_page(self.folder)
        try:
            return folder_page(self.folder, links=False)
        except SenseCryptError as error:
            return broken_page(self.folder, str(error))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore closed connections."""


class _Handler(BaseHTTPRequestHandler):
    server: Watch
    server_version = "sensecrypt"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        if self.headers.get("Host") not in {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}:
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"wrong host; use 127.0.0.1\n")
        elif self.path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", render(self.server.page(), live=True).encode())
        elif self.path == "/content.json":
            page = self.server.page()
            content = {"title": f"{page.title} · SenseCrypt", "html": render_main(page), "data": page.to_json()}
            self._answer(HTTPStatus.OK, "application/json", json.dumps(content, allow_nan=False).encode())
        elif self.path == "/events":
            self._events()
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"not found\n")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self._safe_headers(kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _safe_headers(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", f"{security_policy(live=True)}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")

    def _events(self) -> None:
        """Send an event at every change of the folder, until the reader disconnects."""
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        self._safe_headers("text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        announced: object = None
        spoke = time.monotonic()
        try:
            while True:
                now = stamp(self.server.folder)
                if now != announced:
                    self.wfile.write(b"event: change\ndata: \n\n")
                    announced, spoke = now, time.monotonic()
                elif time.monotonic() - spoke > BREATHE_EVERY:
                    self.wfile.write(b": still here\n\n")
                    spoke = time.monotonic()
                time.sleep(LOOK_EVERY)
        except OSError:
            return

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the standard library's name
        """Log nothing to the user's terminal."""
