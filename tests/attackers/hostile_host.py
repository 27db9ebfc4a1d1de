"""`python -m tests.attackers.hostile_host PORT COUNT KIND...`: hosts that were taken over, at 127.0.2.1 to .COUNT.

Each answers in one of the kinds, in turn. They print the number of requests that they received so far, one a line.
"""

import asyncio
import contextlib
import functools
import gzip
import sys
from collections.abc import AsyncIterator

KINDS = ("informational", "headers", "extensions", "chunks", "behind", "drip", "garbage", "compressed", "redirect")
PIECE = 64 * 1024
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_EMPTY = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"
_BOMB = gzip.compress(b" " * 100 * 1024 * 1024, 1)
_HINTS = b"HTTP/1.1 103 Early Hints\r\n\r\n" * (PIECE // 28)


def address(number: int) -> str:
    """The address of a host, from 1."""
    return f"127.0.2.{number}"


async def _answer(kind: str, port: int) -> AsyncIterator[bytes]:
    """The pieces of an answer; most have no end."""
    match kind:
        case "informational":
            while True:
                yield _HINTS
        case "headers":
            yield _OK
            while True:
                yield b"h: x\r\n" * (PIECE // 6)
        case "extensions":
            yield _OK + b"Transfer-Encoding: chunked\r\n\r\n1;"
            while True:
                yield b"x" * PIECE
        case "chunks":
            yield _OK + b"Transfer-Encoding: chunked\r\n\r\n"
            while True:
                yield b"1\r\n \r\n" * (PIECE // 6)
        case "behind":  # after a complete answer, on the idle connection
            yield _EMPTY
            while True:
                yield _HINTS
        case "drip":
            yield _OK + b"Content-Length: 1000\r\n\r\n"
            while True:
                yield b" "
                await asyncio.sleep(0.05)
        case "garbage":
            while True:
                yield b"\x00\xff" * PIECE
        case "compressed":
            yield _OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(_BOMB) + _BOMB
        case "redirect":
            target = f"http://{address(1)}:{port}/again"
            yield f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()


async def main(port: int, count: int, kinds: list[str]) -> None:
    """Listen for ever."""
    asked = 0

    async def serve(kind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                asked += 1
                sys.stdout.write(f"{asked}\n")
                sys.stdout.flush()
                async for piece in _answer(kind, port):
                    writer.write(piece)
                    await writer.drain()
        writer.close()

    for number in range(1, count + 1):
        await asyncio.start_server(functools.partial(serve, kinds[number % len(kinds)]), address(number), port)
    sys.stdout.write("0\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
