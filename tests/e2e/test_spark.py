"""Native Spark applications on the real cluster: in the driver or with executors, and what goes wrong with them.

Each test sends a wave of events, does something to the application that processes it, and finds every event in the
table exactly once.
"""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from eventconsumer_demo import run
from eventconsumer_demo.steps import DemoError
from eventhubs_emulator.admin_client import AdminClient
from tests.e2e.conftest import ROOT, Demo, image
from tests.e2e.test_bad_input import GOOD_NAMESPACE, GOOD_STORAGE, condition, consumer

pytestmark = pytest.mark.timeout(900)

NAME = "native-spark-processes-this-one"  # long enough for every name that is made of it
PARTITIONS = 2
WAVE = 40
OPERATOR = "app.kubernetes.io/component=operator"
SPARK = f"eventconsumer.io/consumer={NAME},app.kubernetes.io/component=spark"
MISSING_IMAGE = "not-there.example/spark:1"
KILL = """
import os, signal
for pid in filter(str.isdigit, os.listdir("/proc")):
    if b"SparkSubmit" in open(f"/proc/{pid}/cmdline", "rb").read():
        os.kill(int(pid), signal.SIGKILL)
"""


class Shop:
    """A consumer, and the cluster as its owner sees it."""

    def __init__(self, demo: Demo) -> None:
        self.cluster = demo.cluster
        self.demo = demo
        self.sent = 0

    def apply(self, **spark: Any) -> None:
        """Apply the resource with changes to spec.spark."""
        resource = consumer(NAME)
        spec: dict[str, Any] = yaml.safe_load((ROOT / "examples/local.yaml").read_text())["spec"]["spark"]
        spec["output"]["path"] = f"abfs://results@devstoreaccount1.blob.svc.cluster.local:10000/{NAME}"
        spec |= {"trigger": {"files": 1}, "retry": {"backoffSeconds": 1}, "history": {"succeeded": 2, "failed": 1}}
        resource["spec"]["spark"] = spec | spark
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(resource))

    def publish(self) -> None:
        """A wave of events, numbered on from the last."""
        with self.cluster.port_forward(run.HUB_NAMESPACE, "service/eventhubs", 8081) as port:
            admin = AdminClient(f"http://127.0.0.1:{port}")
            for _ in range(WAVE):
                admin.put_event(NAME, str(self.sent % PARTITIONS), str(self.sent).encode())
                self.sent += 1

    def status(self) -> dict[str, Any]:
        """The resource's status."""
        found: dict[str, Any] = self.cluster.get("eventconsumer", NAME).get("status", {})
        return found

    def spark(self) -> dict[str, Any]:
        """The resource's status.spark."""
        found: dict[str, Any] = self.status().get("spark", {})
        return found

    def healthy(self) -> dict[str, Any]:
        """The condition SparkHealthy."""
        return condition(self.demo, NAME, "SparkHealthy")

    def pods(self, role: str) -> list[dict[str, Any]]:
        """The drivers or executors that are there."""
        found: list[dict[str, Any]] = self.cluster.get("pods", "-l", SPARK)["items"]
        return [
            pod for pod in found if (pod["metadata"]["labels"].get("spark-role") == "executor") is (role != "driver")
        ]

    def jobs(self) -> list[dict[str, Any]]:
        """The applications that are there."""
        found: list[dict[str, Any]] = self.cluster.get("jobs", "-l", SPARK)["items"]
        return found

    def until(self, question: Callable[[], Any], seconds: float, what: str) -> Any:
        """Ask until the answer is true; it is returned."""
        deadline = time.monotonic() + seconds
        while not (answer := question()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {seconds:.0f} s: {what}\n{self._story()}")
            time.sleep(0.3)
        return answer

    def until_processed(self, seconds: float = 150) -> dict[str, Any]:
        """Wait until everything sent is in the table, exactly once; return status.spark then."""

        def done() -> dict[str, Any] | None:
            status = self.status()
            spark: dict[str, Any] = status.get("spark", {})
            drained = status.get("drained", {}).get("events") == self.sent
            return spark if drained and spark.get("lastCommit") and not spark["pendingFiles"] else None

        found: dict[str, Any] = self.until(done, seconds, f"all {self.sent} events processed")
        assert self.rows() == list(range(self.sent))
        return found

    def running(self, role: str) -> dict[str, Any]:
        """A driver or executor that runs, as soon as one does."""

        def found() -> dict[str, Any] | None:
            return next((pod for pod in self.pods(role) if pod["status"]["phase"] == "Running"), None)

        pod: dict[str, Any] = self.until(found, 90, f"a {role} runs")
        return pod

    def rows(self) -> list[int]:
        """The numbers of all events in the Delta table, sorted."""
        with self.cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
            storage = {
                "account_name": run.ACCOUNT, "account_key": run.STORAGE_KEY,
                "endpoint": f"http://127.0.0.1:{port}/{run.ACCOUNT}", "allow_http": "true",
            }  # fmt: skip
            table = DeltaTable(f"az://results/{NAME}", storage_options=storage)
            bodies = table.to_pyarrow_dataset().to_table(columns=["body"])["body"].to_pylist()
        return sorted(int(body) for body in bodies)

    def _story(self) -> str:
        told = [json.dumps(self.status(), indent=1)]
        told += [json.dumps(each["metadata"]["name"]) + json.dumps(each.get("status", {})) for each in self.jobs()]
        for pod in (*self.pods("driver"), *self.pods("executor")):
            name = pod["metadata"]["name"]
            try:
                log = self.cluster.kubectl("logs", name, "--tail=30")
            except DemoError as error:
                log = str(error)
            told.append(f"{name}: {json.dumps(pod['status'])}\n{log}")
        return "\n".join(told)


@pytest.fixture(scope="module")
def shop(demo: Demo) -> Iterator[Shop]:
    """The consumer, where one image that does not exist is allowed."""
    cluster = demo.cluster
    chart = ("upgrade", run.RELEASE, str(ROOT / "helm/eventconsumer"), "--reuse-values", "--wait", "--timeout", "120s")
    cluster.helm(*chart, "--set", f"sparkImagePrefixes={{{MISSING_IMAGE}}}")
    with cluster.port_forward(run.HUB_NAMESPACE, "service/eventhubs", 8081) as port:
        AdminClient(f"http://127.0.0.1:{port}").create_hub(NAME, partitions=PARTITIONS)
    cluster.secret(f"{NAME}-hub", connectionString=GOOD_NAMESPACE)
    cluster.secret(f"{NAME}-storage", connectionString=GOOD_STORAGE)
    found = Shop(demo)
    found.apply()
    yield found
    cluster.kubectl("delete", "resourcequota", "tight", "--ignore-not-found")
    cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")
    cluster.helm(*chart, "--set-json", "sparkImagePrefixes=[]")


def test_a_small_batch_runs_in_its_driver_which_may_do_nothing_else(shop: Shop) -> None:
    shop.publish()
    driver = shop.running("driver")
    assert not any("serviceAccountToken" in json.dumps(volume) for volume in driver["spec"]["volumes"])
    assert run.STORAGE_KEY not in json.dumps(driver)
    spark = shop.until_processed()
    assert (spark["attempt"], spark["mode"], spark["failures"]) == (1, "Local", 0)
    assert shop.pods("executor") == []
    assert shop.healthy()["status"] == "True"


def test_a_driver_that_is_killed_is_followed_by_another_attempt(shop: Shop) -> None:
    shop.publish()
    driver = shop.running("driver")["metadata"]["name"]

    def killed() -> bool:
        """As soon as Java runs; until the container is gone."""
        try:
            shop.cluster.kubectl("exec", driver, "--", "python3", "-c", KILL)
        except DemoError:
            return True
        return any(
            pod["metadata"]["name"] == driver and pod["status"]["phase"] == "Failed" for pod in shop.pods("driver")
        )

    shop.until(killed, 60, "the driver is killed")
    said = shop.until(lambda: shop.spark().get("failures") and shop.spark(), 30, "the failure is counted")
    assert "killed (exit code 137)" in said["lastFailure"], said
    spark = shop.until_processed()
    assert spark["lastApplication"].endswith("-b2-a2"), spark
    assert (spark["failures"], shop.healthy()["status"]) == (0, "True")


def test_an_application_that_is_deleted_by_hand_is_followed_at_once(shop: Shop) -> None:
    shop.publish()
    driver = shop.running("driver")["metadata"]
    shop.cluster.kubectl("delete", "job", driver["labels"]["batch.kubernetes.io/job-name"], "--wait=false")
    spark = shop.until_processed()
    assert spark["lastApplication"].endswith("-b3-a2"), spark
    assert driver["name"] not in [pod["metadata"]["name"] for pod in shop.pods("driver")]


def test_an_operator_that_is_killed_right_after_it_started_one_starts_no_second(shop: Shop) -> None:
    shop.publish()
    before = {job["metadata"]["uid"] for job in shop.jobs()}
    shop.until(lambda: {job["metadata"]["uid"] for job in shop.jobs()} - before, 90, "an application")
    shop.cluster.kubectl("delete", "pod", "-l", OPERATOR, "--grace-period=0", "--force")
    spark = shop.until_processed()
    assert (spark["attempt"], spark["lastBatch"]) == (1, 4), spark


def test_a_large_batch_has_executors_and_survives_the_loss_of_one_and_leaves_nothing(shop: Shop) -> None:
    shop.apply(mode="Executors")
    shop.publish()
    executor = shop.running("executor")["metadata"]
    assert executor["ownerReferences"][0]["kind"] == "Pod"
    shop.cluster.kubectl("delete", "pod", executor["name"], "--grace-period=0", "--force")
    spark = shop.until_processed()
    assert (spark["attempt"], spark["mode"]) == (1, "Executors"), spark
    shop.until(lambda: not shop.pods("executor"), 60, "all executors are gone")
    left = shop.cluster.kubectl("get", "services,configmaps", "-o", "name").split()
    assert [name for name in left if "spark" in name and NAME in name and f"/{NAME}-host" not in name] == []


def test_an_image_that_is_missing_is_told_and_healed_by_the_right_one(shop: Shop) -> None:
    shop.apply(application={"image": MISSING_IMAGE})
    shop.publish()
    found = shop.until(
        lambda: shop.healthy()["status"] == "False" and shop.healthy(), 120, "the condition tells of the image"
    )
    assert found["reason"] == "SparkWaiting" and MISSING_IMAGE in found["message"], found
    assert condition(shop.demo, NAME, "Stalled")["status"] == "True"
    shop.apply()
    shop.until_processed()
    assert shop.healthy()["status"] == "True"


def test_a_quota_that_refuses_the_driver_is_told_and_passes(shop: Shop) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tight"},
        "spec": {"hard": {"pods": "1"}},
    }
    shop.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(quota))
    shop.publish()
    found = shop.until(lambda: shop.healthy()["status"] == "False" and shop.healthy(), 120, "the condition tells of it")
    assert found["reason"] == "SparkWaiting" and "quota" in found["message"], found
    shop.cluster.kubectl("delete", "resourcequota", "tight")
    shop.apply(timeoutSeconds=600)  # any change has what waits tried anew, where the Job controller would wait longer
    shop.until_processed()


def test_batches_are_processed_again_into_an_output_of_their_own(shop: Shop) -> None:
    shop.apply(mode="Local", replay={"nonce": "again", "from": 1, "to": 3})
    replay = shop.until(
        lambda: (shop.spark().get("replay") or {}).get("state") == "Succeeded" and shop.spark()["replay"],
        120,
        "the replay succeeds",
    )
    assert (replay["batches"], replay["rows"]) == (3, 3 * WAVE), replay
    assert shop.rows() == list(range(shop.sent))


def test_finished_applications_are_cleaned_up_but_for_the_last(shop: Shop) -> None:
    ended = [job["status"]["conditions"][-1]["type"] for job in shop.jobs() if job["status"].get("conditions")]
    assert ended.count("Complete") <= 3, ended  # two, and one that has just ended
    assert ended.count("Failed") <= 1, ended
    assert image("spark") == shop.status()["effective"]["sparkImage"]
    shop.cluster.kubectl("delete", "eventconsumer", NAME)
    shop.until(lambda: not shop.jobs() and not shop.pods("driver") and not shop.pods("executor"), 60, "nothing is left")
