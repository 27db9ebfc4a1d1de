"""A real Prometheus that scrapes what it is told to, with the chart's alert rules."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.support.azurite import free_port
from tests.support.waiting import HANG_SECONDS

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "helm/eventconsumer/files/alerts.yaml"


def program(name: str) -> str:
    """Where `prometheus` or `promtool` is.

    Raises:
        RuntimeError: It is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is needed: local/need {name} prometheus installs it")
    return found


class Prometheus:
    """The server's process."""

    def __init__(
        self, folder: Path, jobs: dict[str, tuple[int, dict[str, str]]], *, discovered: Path | None = None
    ) -> None:
        """Prepare.

        Args:
            folder: For its data and log.
            jobs: Port on this machine and additional labels, by job name.
            discovered: A file of targets that come and go, in the form of file-based service discovery.
        """
        self._port = free_port()
        self._folder = folder
        changing = {
            "job_name": "discovered",
            "honor_labels": True,
            "file_sd_configs": [{"files": [str(discovered)], "refresh_interval": "2s"}],
        }
        configuration: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [
                {
                    "job_name": job,
                    "honor_labels": True,
                    "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": labels}],
                }
                for job, (port, labels) in jobs.items()
            ]
            + ([changing] if discovered else []),
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={self._folder}/prometheus.yml",
                    f"--storage.tsdb.path={self._folder}/data",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=HANG_SECONDS):
                    return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError(f"Prometheus did not start: {(self._folder / 'prometheus.log').read_text()[-2000:]}")

    def stop(self) -> None:
        """End it."""
        if self._process:
            self._process.terminate()
            self._process.wait(20)

    def api(self, path: str, **query: str) -> Any:
        """The `data` of an answer of its API.

        Raises:
            AssertionError: Prometheus refuses the request; its message tells why.
        """
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=HANG_SECONDS) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {query}: {error.read().decode()}") from error

    def value(self, query: str) -> float | None:
        """The value of a query with one result; None where it has none."""
        result = self.api("query", query=query)["result"]
        return float(result[0]["value"][1]) if result else None
