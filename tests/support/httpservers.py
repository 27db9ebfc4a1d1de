"""An HTTP server of Python in a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from typing import TypeVar

Server = TypeVar("Server", bound=HTTPServer)


class Quiet:
    """A handler's part: no log."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """The server answers until the block ends."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
