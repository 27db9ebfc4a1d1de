"""What the operator costs: many resources against a real API server, without hosts or with one each.

`python -m tests.bench.operator --count 300 --count 1000 --hosts` prints for each number: from the start until every
resource has a status, two minutes of rest, a minute in which events flow, a restart, and the loss of all watches - with
processor time, memory, and API calls. It takes up to ten minutes for 1,000 resources on a quiet machine with two cores.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from kubernetes.aio import client, config

from eventconsumer_api.kube.labels import HOST_PORT
from eventconsumer_api.wire.fleet import FLEET_PATH
from eventconsumer_api.wire.host_report import (
    FleetReport,
    HostReport,
    HostState,
    PartitionLag,
    PartitionReport,
    StorageReport,
    WatermarkReport,
)
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER, STATEFUL_SET
from tests.bench.machine import cpu_seconds
from tests.contract.operator.simulation import host_pod
from tests.support.apiserver import ApiServerProcess, Request, find_binary
from tests.support.azurite import free_port
from tests.support.chart import VALUES_FILE
from tests.support.definition import wait_until_served

ROOT = Path(__file__).parents[2]
USER = "system:serviceaccount:operator-system:eventconsumer-operator"
NAMESPACE = "bench"
SECRET = {"connectionStringSecretRef": {"name": "s", "key": "k"}}
SPEC: dict[str, Any] = {
    "eventHub": {"name": "orders", "authentication": SECRET},
    "checkpointStore": {"container": "leases", "authentication": SECRET},
    "sink": {"container": "drained", "authentication": SECRET},
    "scaling": {"maxReplicas": 1},
}
HOSTS = "127.177.0.1"  # all host pods have this address: one server answers for all
PARTITIONS = 4
CALM_SECONDS = 75  # ready resources rest after 30 s, and are looked at every 15 s
PATIENCE_SECONDS = 330  # a resource that is not ready rests five minutes after its last change
REST_SECONDS = 120  # between two complete lists
IDLE_SECONDS = 60
AWAY_SECONDS = 10
HANG_SECONDS = 600  # for one phase
AT_ONCE = 16  # requests of this program


@dataclass(frozen=True)
class Usage:
    """What the operator used in some time.

    Attributes:
        seconds: The time.
        cpu: Processor seconds.
        calls: API calls by verb and resource.
    """

    seconds: float
    cpu: float
    calls: Counter[str]

    def text(self, count: int) -> str:
        """For people, with `count` resources."""
        calls = sum(self.calls.values())
        each = calls / count / (self.seconds / 60)
        most = ", ".join(f"{number} x {name}" for name, number in self.calls.most_common(4))
        return (
            f"{self.seconds:.1f} s, {self.cpu / self.seconds:.3f} cores, {calls} API calls "
            f"({each:.2f} a resource and minute){': ' + most if most else ''}"
        )


@contextmanager
def api_server(source: Path) -> Iterator[ApiServerProcess]:
    """An API server with the CRD and the chart of a source tree."""
    with tempfile.TemporaryDirectory() as folder:
        server = ApiServerProcess(Path(folder), users=(USER,))
        server.start()
        try:
            for namespace in (NAMESPACE, "operator-system"):
                kubectl(server, "create", "namespace", namespace)
            kubectl(server, "apply", "--server-side", "-f", str(source / "crds/eventconsumers.yaml"))
            wait_until_served(partial(kubectl, server), "eventconsumers.eventconsumer.io")
            rendered = subprocess.run(
                [
                    find_binary("helm"),
                    "template",
                    "eventconsumer",
                    source / "helm/eventconsumer",
                    "--namespace",
                    "operator-system",
                    "--kube-version",
                    "1.35.0",
                    "-f",
                    VALUES_FILE,
                    "--set",
                    "watchNamespaces={" + NAMESPACE + "},crds.enabled=false",
                ],
                capture_output=True,
                check=True,
            ).stdout
            kubectl(server, "apply", "--server-side", "-f", "-", stdin=rendered)
            yield server
        finally:
            server.stop()


def kubectl(server: ApiServerProcess, *arguments: str, stdin: bytes | None = None) -> str:
    """Run kubectl as administrator; its standard output."""
    environment = os.environ | {"KUBECONFIG": str(server.kubeconfig())}
    return subprocess.run(
        [find_binary("kubectl"), *arguments], env=environment, input=stdin, stdout=subprocess.PIPE, check=True
    ).stdout.decode()


class Hosts:
    """One server at `HOSTS`, as the host of every resource; its watermark and its storage requests move.

    Attributes:
        busy: Whether events flow: then the numbers of files and of events that are not in files yet change, too.
    """

    def __init__(self) -> None:
        self.busy = False

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve until the end of the block."""
        application = web.Application()
        application.router.add_get("/status", self._respond)
        application.router.add_post(FLEET_PATH, self._hear)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOSTS, HOST_PORT).start()
            yield
        finally:
            await runner.cleanup()

    async def _respond(self, _: web.Request) -> web.Response:
        return web.Response(text=self._report().model_dump_json(by_alias=True), content_type="application/json")

    async def _hear(self, request: web.Request) -> web.Response:
        await request.read()
        prefers = request.headers.get("Prefer") == "return=representation"
        return await self._respond(request) if prefers else web.Response(status=204)

    def _report(self) -> HostReport:
        """The report of a host that leads."""
        now = datetime.now(UTC)
        moved = int(now.timestamp()) if self.busy else 0
        ids = [str(number) for number in range(PARTITIONS)]
        lag = PartitionLag(events=moved % 100, seconds=float(moved % 10))
        fleet = FleetReport(
            chain="00000000000000c1",
            partition_count=PARTITIONS,
            hub_created_at=datetime(2026, 1, 1, tzinfo=UTC),
            owners=dict.fromkeys(ids, "host"),
            lag_events=PARTITIONS * lag.events,
            lag_seconds=lag.seconds,
            lags=dict.fromkeys(ids, lag),
            files=3 + moved,
            events=100 + 100 * moved,
            bytes=1000 + 1000 * moved,
            watermark=WatermarkReport(files=now),
        )
        return HostReport(
            owner="host",
            state=HostState.RUNNING,
            partition_count=PARTITIONS,
            partitions=tuple(PartitionReport(id=each, epoch=1) for each in ids),
            fleet=fleet,
            hub_silent_seconds=now.timestamp() % 5,
            storage=StorageReport(requests_per_hour=now.timestamp() % 3600, idle_requests_per_hour=500),
        )


async def measure(source: Path, count: int, *, hosts: bool) -> None:
    """Run the operator of a source tree over `count` resources, and print what it uses.

    Args:
        source: The source tree.
        count: Resources.
        hosts: Whether each has a host that reports.
    """
    with api_server(source) as server:
        settings = client.Configuration()
        await config.load_kube_config(config_file=str(server.kubeconfig()), client_configuration=settings)
        found = Hosts() if hosts else None
        async with client.ApiClient(settings) as connection, found.serving() if found else contextlib.nullcontext():
            await at_once(lambda number: create(connection, number), count)
            operator = start(source, server)
            try:
                await phases(operator, server, connection, count, found)
            finally:
                operator.stop()


async def phases(
    operator: "Operator", server: ApiServerProcess, connection: Any, count: int, hosts: Hosts | None
) -> None:
    """Start, rest, events, restart, loss of all watches; a line for each."""

    def say(phase: str, usage: Usage) -> None:
        memory = f"RSS {operator.memory('VmRSS'):.0f} MiB, at most {operator.memory('VmHWM'):.0f}"
        print(f"{count} resources, {phase}: {usage.text(count)}; {memory}", flush=True)

    with operator.used() as used:
        await until(lambda: len(written(server)) == count, operator)
    say("start until all have a status", used())
    if hosts:
        await at_once(lambda number: run_host(connection, number), count)
    await asyncio.sleep(CALM_SECONDS if hosts else PATIENCE_SECONDS)
    with operator.used() as used:
        await asyncio.sleep(REST_SECONDS)
    say("rest", used())
    if hosts:
        hosts.busy = True
        await asyncio.sleep(CALM_SECONDS)
        with operator.used() as used:
            await asyncio.sleep(IDLE_SECONDS)
        say("events flow to all", used())
        hosts.busy = False
    operator.stop()
    operator.start()
    with operator.used() as used:
        await until(lambda: operator.reconciled() >= count, operator, pause=3.0)
    say("restart until all are reconciled", used())
    await asyncio.sleep(CALM_SECONDS)
    server.stop_api()
    await asyncio.sleep(AWAY_SECONDS)
    server.start_api()
    with operator.used() as used:
        await suspend(connection, count - 1)
        done = len(written(server, f"orders-{count - 1}"))
        await until(lambda: len(written(server, f"orders-{count - 1}")) > done, operator)
    say("loss of all watches until a change is in the status", used())
    with operator.used() as used:
        await asyncio.sleep(IDLE_SECONDS)
    say("the minute after it", used())


async def at_once(work: Callable[[int], Awaitable[None]], count: int) -> None:
    """Do work for each number below `count`, some at a time."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await work(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(worker())


async def create(connection: Any, number: int) -> None:
    """Create a resource."""
    body = {
        "apiVersion": EVENT_CONSUMER.api_version,
        "kind": EVENT_CONSUMER.name,
        "metadata": {"name": f"orders-{number}", "namespace": NAMESPACE},
        "spec": SPEC,
    }
    await KubernetesApi(connection).create(body)


async def suspend(connection: Any, number: int) -> None:
    """Change the spec of a resource."""
    await KubernetesApi(connection).merge(EVENT_CONSUMER, NAMESPACE, f"orders-{number}", {"spec": {"suspend": True}})


async def run_host(connection: Any, number: int) -> None:
    """Play StatefulSet controller and kubelet for a resource: one host, which is ready."""
    name = f"orders-{number}-host"
    api, apps, core = KubernetesApi(connection), client.AppsV1Api(connection), client.CoreV1Api(connection)
    stateful_set = await api.get(STATEFUL_SET, NAMESPACE, name)
    if stateful_set is None:
        raise RuntimeError(f"the operator created no StatefulSet {name}")
    await api.create(host_pod(stateful_set, f"{name}-0"))
    container = {
        "name": "host",
        "image": "i",
        "imageID": "",
        "restartCount": 0,
        "ready": True,
        "state": {"running": {}},
    }
    pod = {
        "phase": "Running",
        "podIP": HOSTS,
        "podIPs": [{"ip": HOSTS}],
        "containerStatuses": [container],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await core.patch_namespaced_pod_status(f"{name}-0", NAMESPACE, {"status": pod})
    counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 1)
    status = counts | {"observedGeneration": stateful_set["metadata"]["generation"]}
    await apps.patch_namespaced_stateful_set_status(name, NAMESPACE, {"status": status})


async def until(done: Callable[[], bool], operator: "Operator", pause: float = 0.5) -> None:
    """Wait for something.

    Raises:
        RuntimeError: The operator ended, or it took too long.
    """
    deadline = time.monotonic() + HANG_SECONDS
    while not done():
        if not operator.runs() or time.monotonic() > deadline:
            raise RuntimeError("the operator ended, or did not do its work in time")
        await asyncio.sleep(pause)


class Operator:
    """The operator's process, with the chart's rights."""

    def __init__(self, source: Path, server: ApiServerProcess) -> None:
        """Prepare; `start` starts it."""
        self._source = source
        self._server = server
        self._port = free_port()
        self._key = server.folder / "fleet.pem"  # as in a cluster: hosts keep their configuration over a restart
        private = Ed25519PrivateKey.generate()
        self._key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, also again."""
        paths = os.pathsep.join(str(self._source / dist / "src") for dist in ("crds", "operator"))
        environment = os.environ | {"KUBECONFIG": str(self._server.kubeconfig(USER, NAMESPACE)), "PYTHONPATH": paths}
        command = [
            sys.executable,
            "-m",
            "eventconsumer_operator",
            "--namespace",
            NAMESPACE,
            "--processor-image",
            "host:1",
            "--spark-image",
            "spark:1",
            "--health-port",
            str(self._port),
            "--fleet-key-file",
            str(self._key),
        ]
        with (self._server.folder / "operator.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def stop(self) -> None:
        """End it."""
        self._alive.terminate()
        self._alive.wait(30)

    def runs(self) -> bool:
        """Whether it runs."""
        return self._alive.poll() is None

    def memory(self, field: str) -> float:
        """Resident memory by a field of its status, MiB."""
        lines = Path(f"/proc/{self._alive.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))

    def reconciled(self) -> int:
        """Reconciles since its start; 0 while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=HANG_SECONDS) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0
        name = "eventconsumer_operator_reconciles_total{"
        return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(name))

    @contextmanager
    def used(self) -> Iterator[Callable[[], Usage]]:
        """Measure a block; afterwards the yielded function tells what was used in it."""
        began, cpu = time.monotonic(), cpu_seconds(self._alive.pid)
        skipped = sum(1 for _ in self._server.requests(USER))
        found: list[Usage] = []
        yield lambda: found[0]
        calls = Counter(what(request) for request in list(self._server.requests(USER))[skipped:])
        found.append(Usage(time.monotonic() - began, cpu_seconds(self._alive.pid) - cpu, calls))

    @property
    def _alive(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("it was not started")
        return self._process


def written(server: ApiServerProcess, name: str = "") -> Collection[str]:
    """The resources whose status the operator wrote; with a name, one entry for each write of its status."""
    writes = (
        each.name
        for each in server.requests(USER)
        if each.resource == "eventconsumers/status" and each.code == 200 and name in {"", each.name}
    )
    return list(writes) if name else set(writes)


def start(source: Path, server: ApiServerProcess) -> Operator:
    """The operator, running."""
    operator = Operator(source, server)
    operator.start()
    return operator


def what(request: Request) -> str:
    """A call as text."""
    return f"{request.verb} {request.resource or 'discovery'}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, action="append", default=[], help="resources (300); may be repeated")
    parser.add_argument("--hosts", action="store_true", help="each resource has a host that reports")
    parser.add_argument("--source", type=Path, action="append", default=[], help="source tree; may be repeated")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the operator and the API server
    for source in given.source or [ROOT]:
        for count in given.count or [300]:
            print(f"{source.resolve().name}, {'one host each' if given.hosts else 'without hosts'}:", flush=True)
            asyncio.run(measure(source.resolve(), count, hosts=given.hosts))


if __name__ == "__main__":
    main()
