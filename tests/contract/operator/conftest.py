"""A real API server for this folder, with the CRD, namespaces for tests, and the chart's rights for the operator."""

import functools
import itertools
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes.aio import client, config

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_operator.kube.api import KubernetesApi
from tests.support.apiserver import ApiServerProcess, find_binary
from tests.support.chart import SERVED, VALUES_FILE
from tests.support.definition import wait_until_served
from tests.support.waiting import HANG_SECONDS

ROOT = Path(__file__).parents[3]
OPERATOR_USER = "system:serviceaccount:operator-system:eventconsumer-operator"
_names = itertools.count(1)


class Cluster:
    """The API server, as an administrator with kubectl sees it."""

    def __init__(self, server: ApiServerProcess) -> None:
        self.server = server

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as administrator."""
        return subprocess.run(
            [find_binary("kubectl"), *arguments],
            env=os.environ | {"KUBECONFIG": str(self.server.kubeconfig())},
            input=stdin,
            capture_output=True,
            text=True,
            check=check,
        )

    def apply(self, consumer: Manifest, *, dry_run: bool = False) -> str:
        """Apply an EventConsumer as kubectl does; return the message of a refusal, else nothing."""
        place = f"namespaces/{consumer['metadata']['namespace']}/eventconsumers/{consumer['metadata']['name']}"
        query = "fieldManager=kubectl&force=true" + ("&dryRun=All" if dry_run else "")
        user = yaml.safe_load(self.server.kubeconfig().read_text())["users"][0]["user"]
        request = urllib.request.Request(
            f"{self.server.url}/apis/eventconsumer.io/v1alpha1/{place}?{query}",
            method="PATCH",
            data=json.dumps(consumer, default=lambda time: f"{time:%Y-%m-%dT%H:%M:%SZ}").encode(),
            headers={"Authorization": f"Bearer {user['token']}", "Content-Type": "application/apply-patch+yaml"},
        )
        trusted = ssl.create_default_context(cafile=str(self.server.folder / "certs" / "apiserver.crt"))
        try:
            urllib.request.urlopen(request, timeout=HANG_SECONDS, context=trusted).close()
        except urllib.error.HTTPError as refused:
            return str(json.load(refused)["message"])
        return ""

    def install_chart(self, namespace: str, values: str = "") -> None:
        """Apply what the chart renders for one served namespace, or for all; `values` as helm's --set takes them."""
        served = [] if "scope=Cluster" in values else ["watchNamespaces={served-namespace}"]
        # One policy of this name exists in the API server, for the namespace of the last call.
        text = rendered_chart(",".join([*served, "admissionPolicy.enabled=false", *([values] if values else [])]))
        manifests = text.replace("served-namespace", namespace)
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)

    def define(self, file: Path, name: str) -> None:
        """Install a resource definition, and wait until it is served."""
        self.kubectl("apply", "--server-side", "-f", str(file))
        wait_until_served(lambda *words: self.kubectl(*words).stdout, name)

    def namespace(self) -> str:
        """Create a namespace that no other test uses; it admits restricted pods only."""
        name = f"test-{next(_names)}"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        self.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
        return name


@functools.cache
def rendered_chart(values: str, version: str = "1.35.0") -> str:
    """What helm makes of the chart with these values in the namespace `operator-system`, serving `shop` by default.

    Args:
        values: As helm's --set takes them.
        version: Of Kubernetes.
    """
    served = () if "scope=Cluster" in values else SERVED  # another choice in `values` counts
    return subprocess.run(
        [
            find_binary("helm"),
            "template",
            "eventconsumer",
            ROOT / "helm/eventconsumer",
            "--namespace",
            "operator-system",
            "--kube-version",
            version,
            "-f",
            VALUES_FILE,
            *served,
            "--set",
            values,
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The API server with the CRD served."""
    yield from start_cluster(tmp_path_factory.mktemp("apiserver"))


def start_cluster(folder: Path, users: tuple[str, ...] = (OPERATOR_USER,)) -> Generator[Cluster, None, None]:
    """An API server with the CRD served and these users, until the generator is closed."""
    server = ApiServerProcess(folder, users)
    server.start()
    try:
        result = Cluster(server)
        result.kubectl("create", "namespace", "operator-system")
        result.define(ROOT / "crds/eventconsumers.yaml", "eventconsumers.eventconsumer.io")
        yield result
    finally:
        server.stop()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[KubernetesApi]:
    """The operator's client with an administrator's rights."""
    settings = client.Configuration()
    await config.load_kube_config(config_file=str(cluster.server.kubeconfig()), client_configuration=settings)
    async with client.ApiClient(settings) as connection:
        yield KubernetesApi(connection)
