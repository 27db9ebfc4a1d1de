"""A real HTTP server that receives notices, with answers that a test chooses."""

import json
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.support.httpservers import Quiet


@dataclass(frozen=True)
class Answer:
    """An answer to a request."""

    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Posted:
    """A request."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"

    @property
    def event(self) -> Any:
        """Its content."""
        return json.loads(self.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has ended is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class NoticeServer:
    """One server on loopback; `answer` is called for each request, which is recorded first."""

    def __init__(self, certificate: Path | None = None, key: Path | None = None) -> None:
        self.requests: list[Posted] = []
        self.acknowledged: list[Posted] = []
        self.answer: Callable[[Posted], Answer] = lambda _: Answer()
        server = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _reply(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                posted = Posted(self.path, dict(self.headers), self.rfile.read(length), self.command)
                server.requests.append(posted)
                answer = server.answer(posted)
                if 200 <= answer.status < 300:
                    server.acknowledged.append(posted)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.status != 204:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = do_OPTIONS = _reply  # noqa: N815 - of the library

        self._http = _Server(("127.0.0.1", 0), Handler)
        self._scheme = "http"
        if certificate is not None:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(certificate, key)
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """URL of the endpoint."""
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}/files"

    def close(self) -> None:
        """Stop it."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.close()
