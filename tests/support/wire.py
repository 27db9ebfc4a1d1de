"""HTTP/1.1 messages in wire format: read completely, kept as bytes, and parsed without changes."""

import asyncio
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True)
class Request:
    """One request of a client, unchanged."""

    head: bytes  # request line and headers, with the empty line
    body: bytes  # as on the wire, so chunks with their sizes
    at: float  # when it was complete, seconds of time.monotonic

    @property
    def method(self) -> str:
        """Such as PUT."""
        return self.head.split(b" ", 1)[0].decode()

    @property
    def path(self) -> str:
        """Decoded path, without the query."""
        return unquote(urlsplit(self._target).path)

    @property
    def query(self) -> dict[str, str]:
        """Query parameters; of a repeated one the last."""
        return {name: values[-1] for name, values in parse_qs(urlsplit(self._target).query, True).items()}

    @property
    def headers(self) -> dict[str, str]:
        """Headers by their names in lower case."""
        return parse_headers(self.head)

    @property
    def _target(self) -> str:
        return self.head.split(b" ", 2)[1].decode()


@dataclass(frozen=True)
class Reply:
    """Storage's response, unchanged."""

    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        """HTTP status."""
        return int(self.head.split(b" ", 2)[1])


async def read_message(reader: asyncio.StreamReader, of: str | None = None) -> tuple[bytes, bytes]:
    """Head and body of one HTTP/1.1 message, as on the wire.

    Args:
        reader: The connection.
        of: For a response: the method of its request.

    Raises:
        IncompleteReadError: The connection ended.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    if of is not None and (of == "HEAD" or head.split(b" ", 2)[1] in (b"204", b"304")):
        return head, b""
    headers = parse_headers(head)
    if "chunked" in headers.get("transfer-encoding", ""):
        return head, await _chunks(reader)
    return head, await reader.readexactly(int(headers.get("content-length", "0")))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """All chunks with their sizes and the end."""
    data = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        data += line + await reader.readexactly(size + 2)
        if size == 0:
            return data


def parse_headers(head: bytes) -> dict[str, str]:
    """Headers of a message by their names in lower case."""
    lines = (line.partition(b":") for line in head.split(b"\r\n")[1:] if line)
    return {name.decode().strip().lower(): value.decode().strip() for name, _, value in lines}
