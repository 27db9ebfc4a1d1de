"""A minimal HTTP/1.1 server for JSON: enough for the admin API, its client and curl; one request per connection."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from .errors import BadRequest, EmulatorError, NotFound

MAX_BODY = 32 * 1024 * 1024
"""Bytes of a request body."""
REQUEST_SECONDS = 30.0

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error"}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """A request.

    Attributes:
        method: GET, PUT, POST or DELETE.
        path: the parts of the path, unquoted.
        body: the JSON object of the request, or an empty one.
    """

    method: str
    path: tuple[str, ...]
    body: dict[str, Any]

    def get(self, name: str, kind: type, default: Any = None) -> Any:
        """A field of the body.

        Raises:
            BadRequest: it has the wrong type.
        """
        value = self.body.get(name, default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if value is not default and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise BadRequest(f"field {name!r} is {type(value).__name__}, expected {kind.__name__}")
        return value

    def need(self, name: str, kind: type) -> Any:
        """A required field of the body.

        Raises:
            BadRequest: it is missing or has the wrong type.
        """
        if name not in self.body:
            raise BadRequest(f"field {name!r} is missing")
        return self.get(name, kind)


class JsonServer:
    """Serves one function over HTTP.

    Args:
        answer: maps a call to the response's JSON object; raises ``BadRequest`` or ``NotFound``.
    """

    def __init__(self, answer: Callable[[Call], dict[str, Any]]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens.

        Returns:
            The port.
        """
        self._server = await asyncio.start_server(self._serve, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stops listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                status, body = self._respond(await _read_call(reader))
                writer.write(_response(status, body))
                await writer.drain()
        except BadRequest as error:
            writer.write(_response(400, {"error": str(error)}))
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _respond(self, call: Call) -> tuple[int, dict[str, Any]]:
        try:
            return 200, self._answer(call)
        except NotFound as error:
            return 404, {"error": str(error)}
        except EmulatorError as error:
            return 400, {"error": str(error)}
        except Exception:
            log.exception("admin %s /%s failed", call.method, "/".join(call.path))
            return 500, {"error": "internal error of the emulator: see its log"}


async def _read_call(reader: asyncio.StreamReader) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, _, rest = head[0].partition(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdecimal() or int(length) > MAX_BODY:
        raise BadRequest(f"a content length of {length[:20]!r} is not between 0 and {MAX_BODY}")
    raw = await reader.readexactly(int(length))
    try:
        body = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    parts = urlsplit(rest.rpartition(" ")[0]).path.strip("/").split("/")
    return Call(method, tuple(unquote(part) for part in parts if part), body)


def _response(status: int, body: dict[str, Any]) -> bytes:
    payload = json.dumps(body).encode() + b"\n"
    head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return head.encode() + f"Content-Length: {len(payload)}\r\n\r\n".encode() + payload
