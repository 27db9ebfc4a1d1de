"""The launcher Kubeflow on the real cluster: the kubeflow Spark operator, executors as pods, and no attempt twice."""

import json
import time
from collections.abc import Callable, Iterator
from string import Template
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from eventconsumer_demo import run
from eventconsumer_demo.steps import DemoError
from eventconsumer_operator.manifest import KUBEFLOW_APPLICATION
from eventhubs_emulator.admin_client import AdminClient
from tests.e2e.conftest import ROOT, Demo
from tests.e2e.gitops.engine import local
from tests.e2e.test_bad_input import GOOD_NAMESPACE, GOOD_STORAGE, condition, consumer

pytestmark = pytest.mark.timeout(900)

NAME = "kubeflow-launches-this-consumer"  # long enough for every name that is made of it
SHORT = NAME[:28]  # what the names of its applications begin with
PARTITIONS = 2
WAVE = 40
DEFINITION = ROOT / "tests/definitions/sparkoperator.k8s.io_sparkapplications.yaml"
APPLICATIONS = "sparkapplications.sparkoperator.k8s.io"
SPARK_PODS = f"eventconsumer.io/consumer={NAME},app.kubernetes.io/component=spark"
LEFT_BEHIND = "pods,services,configmaps"


class Shop:
    """A consumer with this launcher, and the cluster as its owner sees it."""

    def __init__(self, demo: Demo) -> None:
        self.cluster = demo.cluster
        self.demo = demo
        self.sent = 0

    def apply(self) -> None:
        resource = consumer(NAME)
        spec = yaml.safe_load((ROOT / "examples/local.yaml").read_text())["spec"]["spark"]
        spec["output"]["path"] = f"abfs://results@devstoreaccount1.blob.svc.cluster.local:10000/{NAME}"
        spec["trigger"] = {"files": 1}
        spec["retry"] = {"backoffSeconds": 0}
        resource["spec"]["spark"] = spec | {"launcher": "Kubeflow"}
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(resource))

    def publish(self) -> None:
        """A wave of events, numbered on from the last."""
        with self.cluster.port_forward(run.HUB_NAMESPACE, "service/eventhubs", 8081) as port:
            admin = AdminClient(f"http://127.0.0.1:{port}")
            for _ in range(WAVE):
                admin.put_event(NAME, str(self.sent % PARTITIONS), str(self.sent).encode())
                self.sent += 1

    def spark(self) -> dict[str, Any]:
        """The resource's status.spark."""
        found: dict[str, Any] = self.cluster.get("eventconsumer", NAME).get("status", {}).get("spark", {})
        return found

    def pods(self, role: str) -> list[dict[str, Any]]:
        """The drivers or executors that are there."""
        found: list[dict[str, Any]] = self.cluster.get("pods", "-l", f"{SPARK_PODS},spark-role={role}")["items"]
        return found

    def applications(self) -> dict[str, dict[str, Any]]:
        """SparkApplications by name."""
        found = self.cluster.get(APPLICATIONS, "-l", f"eventconsumer.io/consumer={NAME}")["items"]
        return {each["metadata"]["name"]: each for each in found}

    def until(self, question: Callable[[], Any], seconds: float, what: str) -> Any:
        """Ask until the answer is true; it is returned."""
        deadline = time.monotonic() + seconds
        while not (answer := question()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {seconds:.0f} s: {what}\n{self._story()}")
            time.sleep(0.5)
        return answer

    def until_processed(self, seconds: float = 300) -> dict[str, Any]:
        """Wait until everything sent is in the table; return status.spark then."""

        def done() -> dict[str, Any] | None:
            status = self.cluster.get("eventconsumer", NAME).get("status", {})
            spark: dict[str, Any] = status.get("spark", {})
            drained = status.get("drained", {}).get("events") == self.sent
            return spark if drained and spark.get("lastCommit") and not spark["pendingFiles"] else None

        found: dict[str, Any] = self.until(done, seconds, f"all {self.sent} events processed")
        return found

    def running_driver(self) -> str:
        """Name of a driver that runs, as soon as one does."""

        def running() -> str:
            names = [pod["metadata"]["name"] for pod in self.pods("driver") if pod["status"]["phase"] == "Running"]
            return names[0] if names else ""

        return str(self.until(running, 120, "a driver runs"))

    def rows(self) -> list[int]:
        """The numbers of all events in the Delta table, sorted."""
        with self.cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
            endpoint = f"http://127.0.0.1:{port}/{run.ACCOUNT}"
            storage = {
                "account_name": run.ACCOUNT, "account_key": run.STORAGE_KEY, "endpoint": endpoint, "allow_http": "true",
            }  # fmt: skip
            table = DeltaTable(f"az://results/{NAME}", storage_options=storage)
            bodies = table.to_pyarrow_dataset().to_table(columns=["body"])["body"].to_pylist()
        return sorted(int(body) for body in bodies)

    def _story(self) -> str:
        told = [self.cluster.kubectl("get", "eventconsumer", NAME, "--ignore-not-found", "-o", "jsonpath={.status}")]
        told += sorted(things(self.demo))
        told += [json.dumps(each.get("status", {})) for each in self.applications().values()]
        for pod in self.pods("driver"):
            name = pod["metadata"]["name"]
            try:
                log = self.cluster.kubectl("logs", name, "--tail=30")
            except DemoError as error:
                log = str(error)
            told.append(f"{name}: {json.dumps(pod['status'])}\n{log}")
        return "\n".join(told)


def things(demo: Demo) -> set[str]:
    """Everything in the namespace that an application could leave behind."""
    found = demo.cluster.kubectl("get", f"{LEFT_BEHIND},{APPLICATIONS}", "-o", "name").split()
    return {name for name in found if f"/{NAME}-host" not in name}


def _until_served(demo: Demo) -> None:
    """`kubectl wait` would give up at once where the definition's status has no conditions yet."""
    deadline = time.monotonic() + 30
    while True:
        try:
            demo.cluster.kubectl("get", "--raw", f"/apis/{KUBEFLOW_APPLICATION.api_version}")
            return
        except DemoError:
            assert time.monotonic() < deadline
            time.sleep(0.5)


@pytest.fixture(scope="module")
def shop(demo: Demo) -> Iterator[Shop]:
    """The consumer, while the kubeflow operator serves the demo's namespace."""
    local("tools", "--kubeflow")
    local("build", "spark", "kubeflow")
    cluster = demo.cluster
    chart = ("upgrade", run.RELEASE, str(ROOT / "helm/eventconsumer"), "--reuse-values", "--wait", "--timeout", "120s")
    cluster.kubectl("apply", "--server-side", "-f", str(DEFINITION))
    _until_served(demo)
    operator = ROOT / "local/cluster/kubeflow/kubeflow.yaml"
    images = json.loads(local("images", "kubeflow"))
    values = {"KUBEFLOW_IMAGE": images["kubeflow"], "SERVED": cluster.namespace}
    cluster.run("kubectl", "apply", "-f", "-", stdin=Template(operator.read_text()).substitute(values))
    cluster.run("kubectl", "-n", "spark-operator", "rollout", "status", "deployment/spark-operator", "--timeout=90s")
    cluster.helm(*chart, "--set", "sparkLaunchers={Kubeflow}")
    with cluster.port_forward(run.HUB_NAMESPACE, "service/eventhubs", 8081) as port:
        AdminClient(f"http://127.0.0.1:{port}").create_hub(NAME, partitions=PARTITIONS)
    cluster.secret(f"{NAME}-hub", connectionString=GOOD_NAMESPACE)
    cluster.secret(f"{NAME}-storage", connectionString=GOOD_STORAGE)
    found = Shop(demo)
    found.apply()
    yield found
    cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")
    cluster.helm(*chart, "--set-json", "sparkLaunchers=[]")
    cluster.run("kubectl", "delete", "namespace", "spark-operator", "--wait=false")
    for plural in ("sparkapplications", "scheduledsparkapplications", "sparkconnects"):
        cluster.run("kubectl", "delete", "crd", f"{plural}.sparkoperator.k8s.io", "--ignore-not-found", "--wait=false")


def test_a_batch_is_processed_by_a_driver_and_executors_of_their_own(shop: Shop) -> None:
    shop.publish()
    executors = shop.until(lambda: shop.pods("executor"), 120, "an executor")
    assert all(each["metadata"]["ownerReferences"][0]["kind"] == "Pod" for each in executors)
    spark = shop.until_processed()
    assert (spark["attempt"], spark["mode"], spark["failures"]) == (1, "Executors", 0)
    assert shop.rows() == list(range(shop.sent))
    (application,) = shop.applications().values()
    shop.until(
        lambda: (
            shop.applications()[application["metadata"]["name"]]["status"]["applicationState"]["state"] == "COMPLETED"
        ),
        30,
        "the application has completed",
    )
    (driver,) = shop.pods("driver")
    assert driver["metadata"]["labels"]["eventconsumer.io/batch"] == "1"
    assert "SharedKey" not in json.dumps(driver) and run.STORAGE_KEY not in json.dumps(driver)


def test_a_driver_that_is_killed_is_followed_by_another_attempt(shop: Shop) -> None:
    shop.publish()
    driver = shop.running_driver()
    shop.cluster.kubectl("delete", "pod", driver, "--grace-period=0", "--force")
    shop.until(lambda: shop.spark().get("attempt") == 2, 120, "a second attempt")
    spark = shop.until_processed()
    assert spark["lastApplication"].endswith("-a2"), spark
    assert shop.rows() == list(range(shop.sent))
    states = {name: each["status"]["applicationState"]["state"] for name, each in shop.applications().items()}
    assert states[driver.removesuffix("-driver")] == "FAILED"


def test_an_application_that_is_deleted_by_hand_is_followed_by_another_and_its_driver_goes(shop: Shop) -> None:
    shop.publish()
    driver = shop.running_driver()
    shop.cluster.kubectl("delete", APPLICATIONS, driver.removesuffix("-driver"), "--wait=false")
    shop.until(lambda: driver not in [pod["metadata"]["name"] for pod in shop.pods("driver")], 120, "the driver goes")
    spark = shop.until_processed()
    assert spark["lastApplication"].endswith("-a2"), spark
    assert shop.rows() == list(range(shop.sent))
    assert condition(shop.demo, NAME, "SparkHealthy")["status"] == "True"


def test_nothing_is_left_of_a_consumer_that_is_deleted_while_one_runs(shop: Shop) -> None:
    shop.publish()
    shop.running_driver()

    def left() -> list[str]:
        """Applications, pods and config maps named after it, and services and config maps that Spark names itself."""
        return [name for name in things(shop.demo) if f"/{SHORT}" in name or "/spark-" in name]

    kinds = {name.partition("/")[0] for name in left()}
    assert kinds >= {"pod", "service", "configmap", APPLICATIONS.replace("applications", "application", 1)}, kinds
    shop.cluster.kubectl("delete", "eventconsumer", NAME)
    shop.until(lambda: not left(), 120, "nothing left")
