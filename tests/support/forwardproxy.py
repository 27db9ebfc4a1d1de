"""A real forward proxy for tests, tinyproxy: CONNECT to port 443 only, each other request is refused."""

import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.azurite import free_port
from tests.support.waiting import wait_until

USER, PASSWORD = "drain", "example-password"  # noqa: S105 - protects nothing


class ForwardProxy:
    """One proxy on loopback.

    Args:
        directory: folder of its configuration and log.
        signs_in: whether it requires `USER` and `PASSWORD`.
        names: host names that only this proxy can resolve, with their addresses. It gets a mount namespace with its
            own /etc/hosts, which requires root.

    Raises:
        RuntimeError: tinyproxy is not installed.
    """

    def __init__(self, directory: Path, *, signs_in: bool, names: Mapping[str, str] | None = None) -> None:
        program = shutil.which("tinyproxy")
        if program is None:
            raise RuntimeError("tinyproxy is not installed: run local/need tinyproxy tinyproxy-bin")
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._log = directory / "proxy.log"
        settings = [
            f"Port {self.port}",
            "Listen 127.0.0.1",
            "ConnectPort 443",
            f'LogFile "{self._log}"',
            "LogLevel Connect",
            *([f"BasicAuth {USER} {PASSWORD}"] if signs_in else []),
        ]
        configuration = directory / "proxy.conf"
        configuration.write_text("\n".join(settings) + "\n")
        command = [program, "-d", "-c", str(configuration)]
        if names:
            hosts = directory / "hosts"
            hosts.write_text("".join(f"{address} {name}\n" for name, address in names.items()))
            script = 'mount --bind "$0" /etc/hosts && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", script, str(hosts), *command]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(self._listens, "the proxy listens")

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def connected(self) -> set[str]:
        """Hosts that clients were connected to."""
        return set(re.findall(r'Established connection to host "([^"]+)"', self._log.read_text()))

    def stop(self) -> None:
        """End it, and every connection through it."""
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process.poll() is None, f"tinyproxy ended with {self._process.returncode}"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
