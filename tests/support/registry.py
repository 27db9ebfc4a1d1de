"""A schema registry, by default on loopback, with both protocols: Azure Schema Registry and Confluent.

It answers as the services do where the driver reads: the schema by id, an unknown id, a wrong credential. `fault` makes
it answer with a status instead. This file needs nothing but Python: it is also the program of a pod in
tests/e2e/test_avro.py.
"""

import json
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.httpservers import Quiet


@dataclass
class StandInRegistry:
    """One registry.

    Attributes:
        authorization: The required value of the header; empty: none is required.
        schemas: Id -> schema, JSON; an id is a GUID without hyphens (Azure) or a number (Confluent).
        versions: Id -> version (Azure).
        others: Id -> kind of a schema that is not Avro, such as JSON.
        references: Ids of schemas with references (Confluent).
        faults: Statuses of the next answers; 0: no fault.
        requests: Paths of all requests.
        tls: For a registry behind TLS; None: plain HTTP.
        host: Address that it listens on; empty: all.
        port: Its port; 0: a free one.
    """

    authorization: str = ""
    schemas: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    references: set[str] = field(default_factory=set)
    faults: list[int] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    port: int = 0
    url: str = ""

    def __enter__(self) -> Self:
        registry = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append(self.path)
                status, headers, body = registry.answer(self.path, self.headers.get("Authorization", ""))
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer((self.host, self.port), Handler)
        if self.tls:
            self._server.socket = self.tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"{'https' if self.tls else 'http'}://{self.host}:{self._server.server_port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content."""
        if status := self.faults.pop(0) if self.faults else 0:
            return status, {"Location": f"{self.url}/elsewhere"}, b"{}"
        if self.authorization and authorization != self.authorization:
            return 401, {}, b'{"error_code": 401, "message": "Unauthorized"}'
        parts = urlsplit(path)
        folder, _, schema_id = parts.path.rpartition("/")
        if folder == "/$schemaGroups/$schemas" and parts.query.startswith("api-version="):
            return self._azure(schema_id)
        if folder == "/schemas/ids":
            return self._confluent(schema_id)
        return 404, {}, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'

    def _azure(self, schema_id: str) -> tuple[int, dict[str, str], bytes]:
        if schema_id not in self.schemas:
            return 404, {}, b'{"error": {"code": "ItemNotFound", "message": "Schema not found"}}'
        kind = self.others.get(schema_id, "Avro")
        headers = {
            "Content-Type": f"application/json; serialization={kind}",
            "Schema-Id": schema_id,
            "Schema-Version": str(self.versions.get(schema_id, 1)),
        }
        return 200, headers, self.schemas[schema_id].encode()

    def _confluent(self, schema_id: str) -> tuple[int, dict[str, str], bytes]:
        if schema_id not in self.schemas:
            return 404, {}, b'{"error_code": 40403, "message": "Schema not found"}'
        said: dict[str, Any] = {"schema": self.schemas[schema_id]}
        if schema_id in self.others:
            said["schemaType"] = self.others[schema_id]
        if schema_id in self.references:
            said["references"] = [{"name": "a", "subject": "a", "version": 1}]
        return 200, {"Content-Type": "application/vnd.schemaregistry.v1+json"}, json.dumps(said).encode()
