"""A consumer whose files Spark processes, for the end-to-end tests of all launchers."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow.parquet as pq
import yaml
from azure.storage.blob import ContainerClient
from deltalake import DeltaTable

from eventconsumer_demo import run
from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import ROOT, Demo
from tests.e2e.consumers import consumer, create_hub, create_secrets, emulator_admin
from tests.e2e.waiting import condition, until

PARTITIONS = 2  # as `create_hub` makes them
KILL = """
import os, signal
for pid in filter(str.isdigit, os.listdir("/proc")):
    if b"SparkSubmit" in open(f"/proc/{pid}/cmdline", "rb").read():
        os.kill(int(pid), signal.SIGKILL)
"""
WAVE = 40
T = TypeVar("T")


class SparkShop:
    """A consumer, and its owner's access to the cluster.

    Args:
        demo: The cluster.
        name: Name of the consumer and of its hub.
        applications: The resource type of applications, in kubectl's form.
        spark: Permanent changes to `spec.spark`.
    """

    def __init__(self, demo: Demo, name: str, applications: str, **spark: Any) -> None:
        self.cluster = demo.cluster
        self.demo = demo
        self.name = name
        self.sent = 0
        self.lost: set[int] = set()  # numbers of events in damaged files
        self._applications = applications
        self._spark = spark
        self._before: set[str] = set()  # pods of batches that are done, though some may still run
        if not self.hub_exists():
            create_hub(demo, name)
        create_secrets(self.cluster, name)
        self.apply()

    def apply(self, **spark: Any) -> None:
        """Apply the resource with changes to `spec.spark`."""
        resource = consumer(self.name)
        spec: dict[str, Any] = yaml.safe_load((ROOT / "examples/local.yaml").read_text())["spec"]["spark"]
        spec["output"]["path"] = f"abfs://results@devstoreaccount1.blob.svc.cluster.local:10000/{self.name}"
        spec["output"] |= self._spark.get("output", {})
        # By default both depend on the namespace; a consumer that moves keeps its places.
        resource["spec"]["sink"]["prefix"] = self.name
        resource["spec"]["spark"] = (
            spec | {"trigger": {"files": 1}, "idleTimeoutSeconds": 0} | self._spark | {"output": spec["output"]} | spark
        )
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(resource))

    def suspend(self, suspended: bool) -> None:
        """Suspend or resume the consumer."""
        change = json.dumps({"spec": {"suspend": suspended}})
        self.cluster.kubectl("patch", "eventconsumer", self.name, "--type=merge", "-p", change)

    def hub_exists(self) -> bool:
        """Whether an earlier consumer of this name has created the hub."""
        with emulator_admin(self.cluster) as admin:
            return self.name in {hub["name"] for hub in admin.hubs()}

    def publish(self) -> None:
        """Publish a wave of events, with consecutive numbers."""
        self._before = {pod["metadata"]["name"] for pod in self.pods()}
        with emulator_admin(self.cluster) as admin:
            for _ in range(WAVE):
                admin.put_event(self.name, str(self.sent % PARTITIONS), str(self.sent).encode())
                self.sent += 1

    def damage(self) -> str:
        """Overwrite the file with the newest event; return its name."""
        with self.cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
            connection = run.storage_connection_string(f"http://127.0.0.1:{port}/{run.ACCOUNT}")
            with ContainerClient.from_connection_string(connection, f"{self.name}-sink") as sink:
                slots = [blob for blob in sink.list_blobs(include=["metadata"]) if "/from=" in blob.name]
                numbers = {blob.name: _numbers(blob.name, blob.metadata) for blob in slots}
                last = max(slots, key=lambda blob: max(numbers[blob.name]))
                sink.upload_blob(last.name, bytes(last.size), metadata=last.metadata, overwrite=True)
        self.lost |= numbers[last.name]
        return str(last.name)

    def status(self) -> dict[str, Any]:
        """The resource's status."""
        found: dict[str, Any] = self.cluster.get("eventconsumer", self.name).get("status", {})
        return found

    def spark(self) -> dict[str, Any]:
        """The resource's status.spark."""
        found: dict[str, Any] = self.status().get("spark", {})
        return found

    def healthy(self) -> dict[str, Any]:
        """The condition SparkHealthy."""
        return condition(self.demo, self.name, "SparkHealthy")

    def pods(self, role: str = "") -> list[dict[str, Any]]:
        """The present drivers or executors, or both."""
        labels = f"eventconsumer.io/consumer={self.name},app.kubernetes.io/component=spark"
        if role:
            labels += f",spark-role={role}" if role == "executor" else ",spark-role!=executor"
        found: list[dict[str, Any]] = self.cluster.get("pods", "-l", labels)["items"]
        return found

    def applications(self) -> dict[str, dict[str, Any]]:
        """The present applications, by name."""
        found = self.cluster.get(self._applications, "-l", f"eventconsumer.io/consumer={self.name}")["items"]
        return {each["metadata"]["name"]: each for each in found}

    def until(self, question: Callable[[], T | None], what: str) -> T:
        """Poll until the result is true, and return it. On failure, show statuses and logs."""
        return until(question, _Story(self, what), pause=0.3)

    def until_processed(self) -> dict[str, Any]:
        """Wait until all events, except lost ones, are in the table exactly once; return status.spark."""

        def done() -> dict[str, Any] | None:
            status = self.status()
            spark: dict[str, Any] = status.get("spark", {})
            drained = status.get("drained", {}).get("events") == self.sent
            return spark if drained and spark.get("lastCommit") and not spark["pendingFiles"] else None

        found = self.until(done, f"all {self.sent} events processed")
        assert self.rows() == sorted({*range(self.sent)} - self.lost)
        return found

    def assert_retried(self, batch: int | str) -> None:
        """The second attempt at a batch was the last one; events of one wave may be in several batches."""
        attempts = [name for name in self.applications() if f"-b{batch}-a" in name]
        assert [name.rpartition("-a")[2] for name in attempts][-1:] == ["2"], self.applications().keys()

    def running(self, role: str) -> dict[str, Any]:
        """Wait for a running driver or executor of the last wave, and return it."""

        def found() -> dict[str, Any] | None:
            new = (pod for pod in self.pods(role) if pod["metadata"]["name"] not in self._before)
            return next((pod for pod in new if pod["status"]["phase"] == "Running"), None)

        return self.until(found, f"a {role} runs")

    def rows(self, suffix: str = "") -> list[int]:
        """The numbers of all events in the output, sorted; `suffix` names the output of reprocessing."""
        return sorted(int(body) for body in self.bodies(suffix))

    def bodies(self, suffix: str = "") -> list[Any]:
        """The bodies of all events in the output; `suffix` names the output of reprocessing."""
        with self.cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
            storage = {
                "account_name": run.ACCOUNT,
                "account_key": run.STORAGE_KEY,
                "endpoint": f"http://127.0.0.1:{port}/{run.ACCOUNT}",
                "allow_http": "true",
            }
            if self._spark.get("output", {}).get("format") == "Parquet":
                connection = run.storage_connection_string(f"http://127.0.0.1:{port}/{run.ACCOUNT}")
                return [row["body"] for row in parquet_rows(connection, self.name + suffix, "body")]
            table = DeltaTable(f"az://results/{self.name}{suffix}", storage_options=storage)
            found: list[Any] = table.to_pyarrow_dataset().to_table(columns=["body"])["body"].to_pylist()
            return found


def parquet_rows(connection: str, folder: str, *columns: str) -> list[dict[str, Any]]:
    """Columns of the events in all Parquet files of a folder of the output's container."""
    found: list[dict[str, Any]] = []
    with ContainerClient.from_connection_string(connection, "results") as results:
        for name in results.list_blob_names(name_starts_with=f"{folder}/"):
            if name.endswith(".parquet"):
                data = results.download_blob(name).readall()
                found += pq.read_table(io.BytesIO(data), columns=list(columns)).to_pylist()
    return found


def _numbers(name: str, facts: dict[str, str]) -> set[int]:
    """Numbers of a file's events, as in `publish`."""
    partition = int(name.partition("/partition=")[2].partition("/")[0])
    return {number * PARTITIONS + partition for number in range(int(facts["first"]), int(facts["last"]) + 1)}


class _Story:
    """The awaited event; on failure, with statuses and logs."""

    def __init__(self, shop: SparkShop, what: str) -> None:
        self._shop, self._what = shop, what

    def __str__(self) -> str:
        shop = self._shop
        told = [self._what, json.dumps(shop.status(), indent=1)]
        told += [f"{name}: {json.dumps(each.get('status', {}))}" for name, each in shop.applications().items()]
        for pod in shop.pods():
            name = pod["metadata"]["name"]
            try:
                log = shop.cluster.kubectl("logs", name, "--tail=30")
            except DemoError as error:
                log = str(error)
            told.append(f"{name}: {json.dumps(pod['status'])}\n{log}")
        return "\n".join(told)


def upgrade(demo: Demo, *values: str) -> None:
    """Upgrade the chart with some values changed."""
    chart = (run.RELEASE, str(ROOT / "helm/eventconsumer"))
    demo.cluster.helm("upgrade", *chart, "--reset-then-reuse-values", "--wait", "--timeout", "120s", *values)


def native(demo: Demo, name: str) -> Iterator[SparkShop]:
    """A consumer with native applications, until the generator is closed."""
    yield SparkShop(demo, name, "jobs", retry={"backoffSeconds": 1}, history={"succeeded": 2, "failed": 1})
    demo.cluster.kubectl("delete", "resourcequota", "tight", "--ignore-not-found")
    demo.cluster.kubectl("delete", "eventconsumer", name, "--ignore-not-found")
