"""A server that speaks as much of Redis' protocol as the example of a handler needs: AUTH, and SET with NX."""

import socketserver
import threading
from typing import BinaryIO, Self


class RedisServer:
    """The server, on a free port of this machine."""

    def __init__(self, password: str) -> None:
        self.password = password
        self.stored: dict[str, bytes] = {}
        self.repeated = 0
        owner = self

        class Connection(socketserver.StreamRequestHandler):
            rbufsize = -1

            def handle(self) -> None:
                allowed = ""
                while command := _command(self.rfile):
                    if command[0] == b"AUTH":
                        allowed = command[1].decode()
                        ok = allowed == owner.password
                        self.wfile.write(b"+OK\r\n" if ok else b"-WRONGPASS invalid password\r\n")
                    elif allowed != owner.password:  # a changed password counts for open connections, too
                        self.wfile.write(b"-NOAUTH Authentication required.\r\n")
                    else:
                        self.wfile.write(owner.set(command))

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    def set(self, command: list[bytes]) -> bytes:
        """SET key value NX."""
        assert command[0] == b"SET" and command[3] == b"NX"
        if command[1].decode() in self.stored:
            self.repeated += 1
            return b"$-1\r\n"
        self.stored[command[1].decode()] = command[2]
        return b"+OK\r\n"

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _command(stream: BinaryIO) -> list[bytes]:
    """The next command; empty at the end of the connection."""
    head = stream.readline()
    parts = []
    for _ in range(int(head[1:] or 0)):
        size = int(stream.readline()[1:])
        parts.append(stream.read(size + 2)[:size])
    return parts
