"""The broker as a process, for tests."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from tests.support.servers import KEY, KEY_NAME

_ROOT = Path(__file__).parents[3]


class PeerProcess:
    """One broker on a free port; `close` ends it.

    Args:
        directory: Folder of its log.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log_file = directory / "peer.log"
        self._log: IO[bytes] = self.log_file.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.peer"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        ports = self._answer()
        self.port: int = ports["port"]
        self._websocket_port: int = ports["websocket_port"]

    def by_websockets(self) -> "PeerProcess":
        """The same broker, whose port is that of its WebSockets."""
        other = copy.copy(self)
        other.port = self._websocket_port
        return other

    def connection_string(self, hub: str) -> str:
        """The connection string of a hub."""
        return (
            f"Endpoint=sb://localhost:{self.port};SharedAccessKeyName={KEY_NAME};SharedAccessKey={KEY};"
            f"UseDevelopmentEmulator=true;EntityPath={hub}"
        )

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Call a method of `__main__.Calls`.

        Raises:
            RuntimeError: It failed, or the process has ended.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": name} | arguments).encode() + b"\n")
        self._process.stdin.flush()
        found = self._answer()
        if "error" in found:
            raise RuntimeError(f"{name}: {found['error']}")
        return found["answer"]

    def produce(self, *sections: bytes, hub: str = "orders", partition: str = "0", drain: bool = False) -> None:
        """Enqueue events, by their encoded sections behind the message annotations."""
        texts = [one.hex() for one in sections]
        self.call("produce", hub=hub, partition=partition, sections=texts, drain=drain)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the broker ended with {self._process.wait()}: {self.log_file.read_text()[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()
        self._log.close()
