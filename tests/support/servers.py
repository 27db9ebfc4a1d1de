"""The Event Hubs emulator as a process, for tests: started on free ports, stopped by its pid."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from eventhubs_emulator.admin_client import AdminClient
from tests.support.waiting import HANG_SECONDS

KEY_NAME, KEY = "RootManageSharedAccessKey", "SAS_KEY_VALUE"


class EmulatorProcess:
    """One emulator; `stop` ends it, `start` starts an empty one on the same ports.

    Args:
        directory: folder of its log and port file.
        options: command line options other than host and ports, such as `--hub=orders=4`.
        host: address to listen on.
        port: its port; 0: a free one.
    """

    def __init__(self, directory: Path, *options: str, host: str = "127.0.0.1", port: int = 0) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.host = host
        self.port = port
        self.admin_port = 0
        self.log_file = directory / "emulator.log"
        self._port_file = directory / "ports.json"
        self._options = options
        self._log: IO[bytes] = self.log_file.open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def admin(self) -> AdminClient:
        """The admin API."""
        return AdminClient(f"http://{self.host}:{self.admin_port}")

    def connection_string(self, hub: str | None = None, name: str = KEY_NAME, key: str = KEY) -> str:
        """The connection string of the namespace, or of a hub (with EntityPath)."""
        text = (
            f"Endpoint=sb://localhost:{self.port};SharedAccessKeyName={name};SharedAccessKey={key};"
            "UseDevelopmentEmulator=true"
        )
        return f"{text};EntityPath={hub}" if hub else text

    def start(self, timeout: float = 30) -> None:
        """Start and wait until it listens.

        Raises:
            RuntimeError: it ended, or did not listen in `timeout` seconds.
        """
        self._port_file.unlink(missing_ok=True)
        ports = [
            f"--host={self.host}",
            f"--port={self.port}",
            f"--admin-port={self.admin_port}",
            f"--port-file={self._port_file}",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "eventhubs_emulator", *ports, *self._options],
            stdout=subprocess.DEVNULL,
            stderr=self._log,
        )
        deadline = time.monotonic() + HANG_SECONDS
        while not self._port_file.exists():
            if self._process.poll() is not None:
                raise RuntimeError(f"the emulator ended with {self._process.returncode}: see {self.log_file}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the emulator did not listen within {timeout} s: see {self.log_file}")
            time.sleep(0.02)
        found = json.loads(self._port_file.read_text())
        self.port, self.admin_port = found["port"], found["admin_port"]

    def empty(self) -> None:
        """Reset an emulator without options: no hub, no link, no fault, one policy."""
        self.admin.clear_faults()
        self.admin.drop_connections()
        for hub in self.admin.hubs():
            self.admin.delete_hub(hub["name"])
        self.admin.set_policies((KEY_NAME, KEY, ["Listen", "Send", "Manage"]))

    @property
    def pid(self) -> int:
        """Its process id.

        Raises:
            RuntimeError: it is not running.
        """
        if self._process is None:
            raise RuntimeError("the emulator is not running")
        return self._process.pid

    def stop(self) -> int:
        """End the process with SIGTERM and wait for it; returns its exit code."""
        code = 0
        if self._process is not None:
            self._process.terminate()
            try:
                code = self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                code = self._process.wait()
        self._process = None
        return code

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        self._log.close()
