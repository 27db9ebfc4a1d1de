"""`python -m tests.attackers.flood PORT KIND CONNECTIONS SECONDS`: what a stranger's pod can do to an HTTP server.

All connections come from one address, as those of one pod. A connection that the server closes is opened again.
"""

import asyncio
import contextlib
import socket
import sys

HOME = "127.0.0.1"  # of the servers, of probes and of others
ADDRESS = "127.0.0.2"  # of the attacker of a server at `HOME`
KINDS = ("headers", "readers", "idle", "bodies")
# As much as the defaults of aiohttp accept in one request: 128 headers of 8,190 bytes.
_HEADERS = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"".join(b"x-%04d: %s\r\n" % (n, b"a" * 8170) for n in range(126))
_READERS = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 200
_BODIES = b"POST /fleet HTTP/1.1\r\nHost: x\r\nContent-Length: 250000\r\n\r\n" + b" " * 249_990
_SENT = {"headers": _HEADERS, "readers": _READERS, "idle": b"", "bodies": _BODIES}


async def _hold(target: str, port: int, kind: str, opened: list[int]) -> None:
    """Keep one connection open, which never ends its request or never reads an answer."""
    loop = asyncio.get_running_loop()
    while True:
        with socket.socket() as attacker, contextlib.suppress(OSError):
            attacker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            attacker.setblocking(False)
            if target == HOME:
                attacker.bind((ADDRESS, 0))
            await loop.sock_connect(attacker, (target, port))
            opened[0] += 1
            await loop.sock_sendall(attacker, _SENT[kind])
            while kind == "readers" or await _open(attacker):
                if kind in {"headers", "bodies"}:
                    await loop.sock_sendall(attacker, b"a")
                elif kind == "readers":
                    await loop.sock_sendall(attacker, _READERS)
                await asyncio.sleep(1)
        await asyncio.sleep(0.05)  # thousands of connections a second are enough to keep a server busy


async def _open(attacker: socket.socket) -> bool:
    """Whether the server has not closed the connection within a second."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            return bool(await asyncio.get_running_loop().sock_recv(attacker, 4096))
    return True


async def attack(port: int, kind: str, connections: int, seconds: float, target: str = HOME) -> int:
    """Attack a server for some seconds; returns the number of connections that were opened."""
    opened = [0]
    tasks = [asyncio.create_task(_hold(target, port, kind, opened)) for _ in range(connections)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return opened[0]


if __name__ == "__main__":
    _, _port, _kind, _connections, _seconds = sys.argv
    sys.stdout.write(f"{asyncio.run(attack(int(_port), _kind, int(_connections), float(_seconds)))}\n")
