"""Real processes of the operator and of a host, whose HTTP servers are attacked."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.machine import peak_mib, resident_mib
from tests.support.azurite import ACCOUNT, KEY, free_port
from tests.support.nowhere import NOWHERE
from tests.support.waiting import wait_until

_HUB = (
    "Endpoint=sb://localhost:1;SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0;UseDevelopmentEmulator=true;EntityPath=o"
)
_STORAGE = (
    f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint=http://127.0.0.1:1/{ACCOUNT};"
)


class Served:
    """A running process.

    Attributes:
        port: Its HTTP port for other pods.
        probes: The port to which the kubelet sends probes.
        seconds: The longest time limit of its probes, as in its pod.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int, probes: int, seconds: float) -> None:
        self.process = process
        self.port = port
        self.probes = probes
        self.seconds = seconds

    def memory(self) -> float:
        """Resident memory, MiB."""
        return resident_mib(self.process.pid)

    def peak(self) -> float:
        """The most resident memory so far, MiB."""
        return peak_mib(self.process.pid)

    def healthy(self, port: int | None = None) -> bool:
        """Whether it answers a probe of the kubelet."""
        url = f"http://127.0.0.1:{port or self.probes}/healthz"
        try:
            with urllib.request.urlopen(url, timeout=self.seconds) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _command(package: str, limited: bool) -> list[str]:
    return [sys.executable, "-m", *([] if limited else ["tests.attackers.unlimited"]), package]


@contextmanager
def _running(command: Sequence[str], folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def operator(folder: Path, *, limited: bool = True) -> Iterator[Served]:
    """An operator that waits for the leader lease of an API server that does not answer."""
    port, probes, page = free_port(), free_port(), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kubeconfig").write_text(json.dumps(NOWHERE))
    flags = (
        "--processor-image=p",
        "--spark-image=s",
        "--namespace=shop",
        "--leader-elect",
        f"--health-port={port}",
        f"--probe-port={probes}",
        f"--status-page-port={page}",
    )
    environment = {"KUBECONFIG": str(folder / "kubeconfig"), "POD_NAMESPACE": "home"}
    with _running([*_command("eventconsumer_operator", limited), *flags], folder, environment) as process:
        found = Served(process, port, probes, seconds=10)
        wait_until(lambda: found.healthy() and found.healthy(port), "the operator listens")
        yield found


@contextmanager
def host(folder: Path, *, limited: bool = True) -> Iterator[Served]:
    """A host whose hub and storage do not answer."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("hub", _HUB), ("storage", _STORAGE)):
        (folder / name).write_text(text)

    def secret(part: str, name: str) -> dict[str, str]:
        field = f"spec.{part}.authentication.connectionStringSecretRef"
        return {"field": field, "secret": name, "key": "k", "connectionStringFile": str(folder / name)}

    def location(part: str) -> dict[str, object]:
        return {"container": "c", "prefix": "shop/orders", "credential": secret(part, "storage")}

    config = {
        "resource": {"namespace": "shop", "name": "orders", "uid": "uid-1"},
        "eventHub": {"consumerGroup": "$Default", "credential": secret("eventHub", "hub")},
        "leases": {"location": location("checkpointStore"), "durationSeconds": 15},
        "startingPosition": {"type": "Earliest"},
        "processing": {"maxBatchSize": 300, "prefetchCount": 3000, "maxWaitSeconds": 5},
        "sink": location("sink"),
        "roll": {"maxBytes": 1_000_000, "maxSeconds": 1, "maxEvents": 100_000},
        "batches": None,
        "drainSeconds": 20,
        "allowInsecureEndpoints": True,
    }
    (folder / "config").write_text(json.dumps(config))
    environment = {
        "EVENTCONSUMER_CONFIG": str(folder / "config"),
        "EVENTCONSUMER_PORT": "0",
        "POD_NAME": "h",
        "POD_UID": "u",
    }
    with _running(_command("eventconsumer_tools", limited), folder, environment) as process:
        log = folder / "log"
        found = wait_until(lambda: re.search(r'"port": (\d+)', log.read_text()), f"the host listens, see {log}")
        served = Served(process, int(found[1]), int(found[1]), seconds=5)
        wait_until(served.healthy, "the host answers")
        yield served
