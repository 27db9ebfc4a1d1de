"""What the operator costs: many resources without hosts against a real API server.

`python -m tests.bench.operator --count 300` prints one line for each source tree given with --source (default: this
one): time from the start of the operator until every resource has a status for its spec, processor time and memory to
there, and API calls and processor time in a minute of rest after that.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.aio import client, config

from eventconsumer_operator.kube.manifest import EVENT_CONSUMER
from tests.support.apiserver import ApiServerProcess, Request, find_binary
from tests.support.azurite import free_port
from tests.support.chart import VALUES_FILE

ROOT = Path(__file__).parents[2]
USER = "system:serviceaccount:operator-system:eventconsumer-operator"
NAMESPACE = "bench"
SECRET = {"connectionStringSecretRef": {"name": "s", "key": "k"}}
SPEC: dict[str, Any] = {
    "eventHub": {"name": "orders", "authentication": SECRET},
    "leaseStore": {"container": "leases", "authentication": SECRET},
    "sink": {"container": "drained", "authentication": SECRET},
}
CALM_SECONDS = 45  # what does not move for 30 s rests
IDLE_SECONDS = 60


@dataclass(frozen=True)
class Result:
    """Figures of one run.

    Attributes:
        reconciled: Seconds from the operator's start until every resource has a status for its spec.
        busy_cpu: Processor seconds of the operator to there.
        memory: Resident memory at the end, MiB.
        peak: The most it was, MiB.
        calls: API calls to there.
        idle_calls: API calls in a minute of rest.
        idle_cpu: Processor seconds in that minute.
        idle_kinds: Those calls by verb and resource.
    """

    reconciled: float
    busy_cpu: float
    memory: float
    peak: float
    calls: int
    idle_calls: int
    idle_cpu: float
    idle_kinds: Counter[str]


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
            kubectl(server, "wait", "--for=condition=Established", "crd/eventconsumers.eventconsumer.io")
            rendered = subprocess.run(
                [
                    find_binary("helm"), "template", "eventconsumer", source / "helm/eventconsumer",
                    "--namespace", "operator-system", "--kube-version", "1.35.0", "-f", VALUES_FILE,
                    "--set", "watchNamespaces={" + NAMESPACE + "},crds.enabled=false",
                ],
                capture_output=True, check=True,
            ).stdout  # fmt: skip
            kubectl(server, "apply", "--server-side", "-f", "-", stdin=rendered)
            yield server
        finally:
            server.stop()


def kubectl(server: ApiServerProcess, *arguments: str, stdin: bytes | None = None) -> None:
    """Run kubectl as administrator."""
    environment = os.environ | {"KUBECONFIG": str(server.kubeconfig())}
    subprocess.run(
        [find_binary("kubectl"), *arguments], env=environment, input=stdin, stdout=subprocess.DEVNULL, check=True
    )


async def measure(source: Path, count: int) -> Result:
    """Run the operator of a source tree over `count` resources."""
    with api_server(source) as server:
        settings = client.Configuration()
        await config.load_kube_config(config_file=str(server.kubeconfig()), client_configuration=settings)
        async with client.ApiClient(settings) as connection:
            resources = client.CustomObjectsApi(connection)
            group, version = EVENT_CONSUMER.api_version.split("/")
            place = (group, version, NAMESPACE, EVENT_CONSUMER.plural)
            for number in range(count):
                body = {
                    "apiVersion": EVENT_CONSUMER.api_version, "kind": EVENT_CONSUMER.name,
                    "metadata": {"name": f"orders-{number}"}, "spec": SPEC,
                }  # fmt: skip
                await resources.create_namespaced_custom_object(*place, body)
            operator = start(source, server)
            try:
                began = time.monotonic()
                while True:
                    found = (await resources.list_namespaced_custom_object(*place))["items"]
                    if sum(item.get("status", {}).get("observedGeneration") == 1 for item in found) == count:
                        break
                    if operator.poll() is not None or time.monotonic() - began > 600:
                        raise RuntimeError("the operator ended, or did not reconcile everything in ten minutes")
                    await asyncio.sleep(0.5)
                reconciled, busy_cpu, calls = time.monotonic() - began, cpu(operator), total(server)
                await asyncio.sleep(CALM_SECONDS)
                before, before_cpu = list(server.requests(USER)), cpu(operator)
                await asyncio.sleep(IDLE_SECONDS)
                after = list(server.requests(USER))[len(before) :]
                return Result(
                    reconciled=reconciled,
                    busy_cpu=busy_cpu,
                    memory=memory(operator, "VmRSS"),
                    peak=memory(operator, "VmHWM"),
                    calls=calls,
                    idle_calls=len(after),
                    idle_cpu=cpu(operator) - before_cpu,
                    idle_kinds=Counter(what(request) for request in after),
                )
            finally:
                operator.terminate()
                operator.wait(30)


def start(source: Path, server: ApiServerProcess) -> subprocess.Popen[bytes]:
    """The operator's process, with the chart's rights."""
    paths = os.pathsep.join(str(source / dist / "src") for dist in ("crds", "operator"))
    environment = os.environ | {"KUBECONFIG": str(server.kubeconfig(USER, NAMESPACE)), "PYTHONPATH": paths}
    command = [
        sys.executable, "-m", "eventconsumer_operator", "--namespace", NAMESPACE, "--processor-image", "host:1",
        "--spark-image", "spark:1", "--health-port", str(free_port()),
    ]  # fmt: skip
    with (server.folder / "operator.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def total(server: ApiServerProcess) -> int:
    """Calls so far."""
    return sum(1 for _ in server.requests(USER))


def what(request: Request) -> str:
    """A call as text."""
    return f"{request.verb} {request.resource or 'discovery'}"


def cpu(process: subprocess.Popen[bytes]) -> float:
    """Processor time of a process, seconds."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: subprocess.Popen[bytes], field: str) -> float:
    """Resident memory of a process by a field of its status, MiB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="resources")
    parser.add_argument("--source", type=Path, action="append", default=[], help="source tree; may be repeated")
    given = parser.parse_args()
    print(f"{given.count} resources without hosts, a real API server on the same machine")
    print("| source | reconciled s | CPU s to there | calls to there | RSS, peak MiB | idle calls/resource/min | CPU |")
    print("|---|---|---|---|---|---|---|")
    for source in given.source or [ROOT]:
        result = asyncio.run(measure(source.resolve(), given.count))
        print(
            f"| {source.resolve().name} | {result.reconciled:.1f} | {result.busy_cpu:.1f} | {result.calls} "
            f"| {result.memory:.0f} ({result.peak:.0f}) | {result.idle_calls / given.count:.2f} "
            f"| {result.idle_cpu / IDLE_SECONDS:.3f} cores |",
            flush=True,
        )
        for name, number in result.idle_kinds.most_common():
            print(f"    idle minute: {number} x {name}", flush=True)


if __name__ == "__main__":
    main()
