"""The demo's steps, one function each: from an empty cluster to a checked result."""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from azure.storage.blob import ContainerClient
from rich.table import Table
from rich.text import Text

from eventconsumer_demo import watch
from eventconsumer_demo.batches import Batch, read_batches, table_of
from eventconsumer_demo.cluster import Cluster
from eventconsumer_demo.steps import DemoError, console
from eventconsumer_demo.verify import Result, Tally, differences, query, read_columns, read_result

ROOT = Path(__file__).parents[4]
RESOURCE = ROOT / "examples" / "local.yaml"
RELEASE = "eventconsumer"
CONSUMER = "orders"
HUB, PARTITIONS = "orders", 8
EMULATOR = "eventhubs.azure.svc.cluster.local"
DEMO_LABEL = "eventconsumer.io/demo"
BLOB_NAMESPACE, BLOB_SERVICE, BLOB_PORT = "blob", "service/devstoreaccount1", 10000
HUB_NAMESPACE = "azure"
STAND_INS = ((BLOB_NAMESPACE, "azurite"), (HUB_NAMESPACE, "eventhubs"))
ACCOUNT = "devstoreaccount1"
# The public default keys of Azurite and Microsoft's Event Hubs emulator.
STORAGE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
HUB_KEY = "SAS_KEY_VALUE"
QUERY = """SELECT customer, count(*) AS orders, max(order_number) AS newest, sum(amount) AS amount FROM orders
WHERE _error IS NULL GROUP BY customer ORDER BY amount DESC LIMIT 3"""


@dataclass(frozen=True)
class Wave:
    """Events that one publisher sends: `events` of them, with ids from `first` on."""

    number: int
    first: int
    events: int

    @property
    def job(self) -> str:
        """Name of the publisher's Job."""
        return f"publisher-{self.number}"

    @property
    def end(self) -> int:
        """Number of events after this wave."""
        return self.first + self.events


def storage_connection_string(endpoint: str) -> str:
    """Connection string of the development account at a blob endpoint."""
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={STORAGE_KEY};BlobEndpoint={endpoint};"


def hub_connection_string() -> str:
    """Connection string of the demo's hub in the emulator."""
    return (
        f"Endpoint=sb://{EMULATOR};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={HUB_KEY};"
        f"UseDevelopmentEmulator=true;EntityPath={HUB}"
    )


def stand_ins(cluster: Cluster, images: dict[str, str]) -> None:
    """New Azurite and Event Hubs emulator, so that every run starts empty."""
    values = {"AZURITE_IMAGE": images["azurite"], "EMULATOR_IMAGE": images["emulator"]}
    cluster.apply_filled(ROOT / "local/azurite/azurite.yaml", values, namespace=BLOB_NAMESPACE)
    cluster.apply_filled(ROOT / "local/emulator/emulator.yaml", values, namespace=HUB_NAMESPACE)
    for namespace, name in STAND_INS:
        cluster.run("kubectl", "-n", namespace, "rollout", "status", f"deployment/{name}", "--timeout=90s", timeout=100)


def install_operator(cluster: Cluster, images: dict[str, str]) -> None:
    """`helm upgrade --install` of the chart with the images just built."""
    values = {f"image.{name}": images[name] for name in ("operator", "processor", "spark")}
    settings = [part for name, image in values.items() for part in ("--set-string", f"{name}={image}")]
    chart = str(ROOT / "helm/eventconsumer")
    cluster.helm(
        "upgrade",
        "--install",
        RELEASE,
        chart,
        *settings,
        # One namespace for everything: the demo's users are its administrators.
        "--set",
        f"watchNamespaces={{{cluster.namespace}}}",
        "--set",
        "allowInsecureEndpoints=true",
        "--set-string",
        f"handlerImagePrefixes={{{_handler_image(images['processor'])}}}",
        "--wait",
        "--timeout",
        "120s",
    )


def _handler_image(processor: str) -> str:
    """Repository of the example handler, which users and tests build from the processor image."""
    return processor.rpartition("/")[0] + "/handler"


def start_publisher(cluster: Cluster, images: dict[str, str], wave: Wave) -> None:
    """Start the Job that publishes a wave."""
    program = resources.files("eventconsumer_demo").joinpath("publisher.py").read_text()
    cluster.config_map("publisher", {"publisher.py": program})
    cluster.secret("publisher-hub", connectionString=hub_connection_string())
    manifest = ROOT / "local/demo/manifests/publisher.yaml"
    values = {"PROCESSOR_IMAGE": images["processor"], "NAME": wave.job, "FIRST": str(wave.first)}
    values["EVENTS"] = str(wave.events)
    cluster.apply_filled(manifest, values, namespace=cluster.namespace)


def publisher_check(cluster: Cluster, wave: Wave) -> Callable[[], None]:
    """A check for the watch: raises when the publisher failed."""

    def check() -> None:
        if cluster.get("job", wave.job).get("status", {}).get("failed"):
            raise DemoError("the publisher failed", detail=cluster.kubectl("logs", f"job/{wave.job}", "--tail", "20"))

    return check


def sent_events(cluster: Cluster, waves: Sequence[Wave]) -> dict[str, Tally]:
    """The publishers' summary of sent events: {partition key: Tally}."""
    sent: dict[str, Tally] = defaultdict(Tally)
    for wave in waves:
        cluster.kubectl("wait", f"job/{wave.job}", "--for=condition=Complete", "--timeout=60s")
        # Its progress, on the other stream, may follow the summary: the two streams have no order.
        log = cluster.kubectl("logs", f"job/{wave.job}").splitlines()
        (summary,) = [line for line in log if line.startswith("{")]
        for key, numbers in json.loads(summary)["sent"].items():
            sent[key] += Tally(**numbers)
    return dict(sent)


def apply_consumer(cluster: Cluster) -> None:
    """The Secrets and the EventConsumer."""
    endpoint = f"http://{ACCOUNT}.blob.svc.cluster.local:{BLOB_PORT}"
    cluster.secret("orders-hub", connectionString=hub_connection_string())
    cluster.secret("orders-storage", connectionString=storage_connection_string(endpoint))
    cluster.apply(RESOURCE)


def follow(cluster: Cluster, wave: Wave, timeout: float) -> watch.View:
    """Watch until all events are drained and processed."""
    return watch.follow(cluster, CONSUMER, wave.end, timeout=timeout, check=publisher_check(cluster, wave))


@contextmanager
def storage_account(cluster: Cluster) -> Iterator[tuple[str, dict[str, str]]]:
    """The account in the cluster, reached from here: its endpoint, and the options of delta-rs for it."""
    with cluster.port_forward(BLOB_NAMESPACE, BLOB_SERVICE, BLOB_PORT) as port:
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        yield (
            endpoint,
            {"account_name": ACCOUNT, "account_key": STORAGE_KEY, "endpoint": endpoint, "allow_http": "true"},
        )


def query_columns(cluster: Cluster, timeout: float) -> list[dict[str, Any]]:
    """The rows of `QUERY` in the table over the files, as soon as there are some.

    Raises:
        DemoError: There are none within `timeout` seconds.
    """
    container = yaml.safe_load(RESOURCE.read_text())["spec"]["sink"]["container"]
    deadline = time.monotonic() + timeout
    with storage_account(cluster) as (_, storage):
        while time.monotonic() < deadline:
            if rows := query(f"az://{container}/{cluster.namespace}/{CONSUMER}", storage, QUERY):
                return rows
            time.sleep(0.5)
    raise DemoError(f"the table over the files has no rows after {timeout:.0f} s", hint="check the conditions below")


def show_query(rows: Sequence[dict[str, Any]]) -> None:
    """The query, and the rows that it found."""
    console.print(QUERY, style="dim")
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int | Decimal) else value for value in row.values()))
    console.print(table)


def verify(cluster: Cluster, waves: Sequence[Wave]) -> tuple[Result, list[Batch]]:
    """Read the table over the files and the Delta table of Spark, and compare both with the sent events.

    Returns:
        The content of Spark's table, and the batches that wrote it.

    Raises:
        DemoError: They differ; the differences are in `detail`.
    """
    spec = yaml.safe_load(RESOURCE.read_text())["spec"]
    output = urlsplit(spec["spark"]["output"]["path"])
    with storage_account(cluster) as (endpoint, storage):
        result = read_result(f"az://{output.username}{output.path}", storage)
        folder = f"{cluster.namespace}/{CONSUMER}"
        over_files = read_columns(f"az://{spec['sink']['container']}/{folder}", storage)
        connection = storage_connection_string(endpoint)
        with ContainerClient.from_connection_string(connection, spec["sink"]["container"]) as container:
            batches = read_batches(container, folder)
    sent = sent_events(cluster, waves)
    for name, found in (("the table over the files", over_files), ("the table of Spark", result)):
        if wrong := differences(sent, found.tallies):
            raise DemoError(f"{name} differs from the sent events", detail="\n".join(wrong))
    return result, batches


def audit(cluster: Cluster) -> str:
    """Audit every file against the leases, the batches and the hub, in a host pod.

    Returns:
        The output of the audit; its last line is the verdict.

    Raises:
        DemoError: Not every event is in exactly one file, or the audit failed.
    """
    command = ("exec", f"{CONSUMER}-host-0", "--", "eventconsumer", "audit", "--deep", "--hub")
    try:
        return cluster.kubectl(*command).strip()
    except DemoError as error:
        raise DemoError(
            "the audit of the files is not clean",
            detail=error.detail,
            hint=f"kubectl -n {cluster.namespace} {' '.join(command)}",
        ) from error


def show_audit(printed: str) -> None:
    """The audit's table and its verdict."""
    *table, verdict = printed.splitlines()
    console.print("\n".join(table))
    console.print(verdict, style="green bold")


def show_result(result: Result, batches: Sequence[Batch]) -> None:
    """The batches, and the verdict about the table."""
    console.print(table_of(batches))
    verdict = f"Every one of {result.events:,} events is in both Delta tables exactly once"
    details = f" (version {result.version}, {len(result.tallies)} partition keys)."
    console.print(Text.assemble((verdict, "green bold"), details))


def reset(cluster: Cluster) -> None:
    """Remove the objects of an earlier run except the operator: each run starts with an empty hub and storage."""
    cluster.kubectl("delete", "eventconsumer", "--all", "--ignore-not-found", "--wait=true")
    cluster.kubectl("delete", "job", "--all", "--ignore-not-found", "--wait=true", "--cascade=foreground")
    deadline = time.monotonic() + 90
    while cluster.get("pods", "-l", "app.kubernetes.io/component=host")["items"]:
        if time.monotonic() > deadline:
            raise DemoError(
                "host pods of an earlier run do not terminate", hint="kubectl delete pods --all, then `make demo`"
            )
        time.sleep(1)
    for namespace, name in STAND_INS:  # both keep all data in memory
        _refuse_foreign_namespace(cluster, namespace)
        cluster.run("kubectl", "-n", namespace, "delete", "deployment", name, "--ignore-not-found", "--wait=true")


def _refuse_foreign_namespace(cluster: Cluster, namespace: str) -> None:
    """On the user's own cluster a namespace of that name may belong to another program."""
    found = cluster.run("kubectl", "get", "namespace", namespace, "--ignore-not-found", "-o", "json")
    if found and DEMO_LABEL not in json.loads(found)["metadata"].get("labels", {}):
        raise DemoError(
            f"namespace {namespace} exists and does not belong to the demo",
            hint=f"use a cluster without a namespace {namespace}",
        )
