"""A real Azurite blob service as a process, for tests: started on a free port, stopped by its pid."""

import contextlib
import fcntl
import os
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from azure.storage.blob import BlobServiceClient

from tests.support.waiting import HANG_SECONDS

ACCOUNT = "devstoreaccount1"
# The development key that every copy of Azurite ships; it protects nothing.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
BINARY = Path(__file__).parents[2] / "local/azurite/node_modules/.bin/azurite-blob"


_taken = set[int]()
_claims: IO[bytes] | None = None


def claimed(numbers: range) -> Iterator[int]:
    """Numbers that no other test process of this machine has claimed; each one is claimed until this process ends.

    A lock of a byte of one file for each number (fcntl(2), "Advisory record locking"): the system releases it.
    """
    global _claims  # noqa: PLW0603 - closing any other file object of it would release all locks
    if _claims is None:
        _claims = (Path(tempfile.gettempdir()) / f"eventconsumer-tests-{os.getuid()}.claims").open("ab")
    for number in numbers:
        if number not in _taken:
            with contextlib.suppress(BlockingIOError):
                fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
                _taken.add(number)
                yield number


def free_port() -> int:
    """A TCP port on loopback without a listener, which no other test gets.

    It is below the kernel's range for outgoing connections, so that no client of a concurrent test uses it before the
    server starts.
    """
    for port in claimed(range(15_000, 30_000)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("all ports from 15000 to 29999 have a listener: end other programs")


def own_address() -> str:
    """A loopback address that no other test gets, for servers on a fixed port."""
    number = next(claimed(range(100_000, 150_000)))
    return f"127.{number // 250 % 200 + 44}.{number // 50_000}.{number % 250 + 1}"


@contextlib.contextmanager
def azurite_with_client(folder: Path, database: str = "") -> Iterator[tuple["AzuriteProcess", BlobServiceClient]]:
    """A new Azurite, with its log in `folder`, and a client of it; for `database`, see `AzuriteProcess`."""
    azurite = AzuriteProcess(folder / "azurite.log", database=database)
    azurite.start()
    try:
        with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
            yield azurite, service
    finally:
        azurite.close()


class AzuriteProcess:
    """One Azurite; `stop` ends it, `start` starts it again on the same port, without the blobs in its memory.

    Args:
        log: file for its output.
        access_log: whether the log has one line for each request.
        host: address to listen on.
        tls: certificate and key; with them it listens on port 443.
        database: URL of a MySQL database for names and metadata, with files beside the log for contents. Otherwise all
            is in memory, where each write searches all blobs: 100,000 would take an hour.
    """

    def __init__(
        self,
        log: Path,
        *,
        access_log: bool = False,
        host: str = "127.0.0.1",
        tls: tuple[Path, Path] | None = None,
        database: str = "",
    ) -> None:
        self.host = host
        self._environment = os.environ | ({"AZURITE_DB": database} if database else {})
        self._persistence = [f"--location={log.parent}"] if database else ["--inMemoryPersistence"]
        self.port = 443 if tls else free_port()
        self._tls = [f"--cert={tls[0]}", f"--key={tls[1]}"] if tls else []
        self._silence = [] if access_log else ["--silent"]
        self._log: IO[bytes] = log.open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Blob endpoint of the development account."""
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}/{ACCOUNT}"

    @property
    def connection_string(self) -> str:
        """Connection string of the development account."""
        scheme = self.url.partition(":")[0]
        return f"DefaultEndpointsProtocol={scheme};AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={self.url};"

    def container(self) -> str:
        """A container name that no other test uses; the container is not created."""
        return f"test-{uuid.uuid4().hex[:16]}"

    def start(self, timeout: float = 30) -> None:
        """Start and wait until the port answers.

        Raises:
            RuntimeError: Azurite is not installed, ended, or did not respond within `timeout` seconds.
        """
        if not BINARY.exists():
            raise RuntimeError(f"Azurite is not installed at {BINARY}: run `make azurite`")
        flags = [
            "--skipApiVersionCheck",
            "--loose",
            "--disableTelemetry",
            *self._persistence,
            *self._silence,
            *self._tls,
        ]
        self._process = subprocess.Popen(
            [str(BINARY), "--blobHost", self.host, "--blobPort", str(self.port), *flags],
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
        )
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"Azurite ended with {self._process.returncode}: see {self._log.name}")
            with socket.socket() as probe:
                if probe.connect_ex((self.host, self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"Azurite did not answer within {timeout} s: see {self._log.name}")

    def stop(self) -> None:
        """End the process and wait for it."""
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        self._log.close()
