"""Native Spark applications on the real cluster: in the driver or with executors, and their failures.

Each test publishes a wave of events, disturbs the application that processes it, and finds every event in the table
exactly once.
"""

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import Demo, image
from tests.e2e.sparkshop import WAVE, SparkShop, upgrade
from tests.e2e.waiting import condition

NAME = "native-spark-processes-this-one"  # long enough for every name that is made of it
OPERATOR = "app.kubernetes.io/component=operator"
MISSING_IMAGE = "not-there.example/spark:1"
KILL = """
import os, signal
for pid in filter(str.isdigit, os.listdir("/proc")):
    if b"SparkSubmit" in open(f"/proc/{pid}/cmdline", "rb").read():
        os.kill(int(pid), signal.SIGKILL)
"""
# The settings of the program, Spark's local directory, and its contents.
SHOW = """
import json, os, pathlib
file = pathlib.Path("/config/shop/MODE").read_text()
print(json.dumps([os.environ["APP_MODE"], file, os.environ["SPARK_LOCAL_DIRS"], os.listdir("/scratch")]))
"""
SETTINGS = "spark-settings"
# More than the pod has, in pieces of which none is as large as Java: so Java is what the kernel kills.
EXHAUST = """
import os, time
for _ in range(20):
    if not os.fork():
        block = b"x" * (60 << 20)
        time.sleep(30)
        os._exit(0)
time.sleep(3)
"""


@pytest.fixture(scope="module")
def shop(demo: Demo) -> Iterator[SparkShop]:
    """The consumer; removed at the end."""
    found = SparkShop(demo, NAME, "jobs", retry={"backoffSeconds": 1}, history={"succeeded": 2, "failed": 1})
    yield found
    demo.cluster.kubectl("delete", "resourcequota", "tight", "--ignore-not-found")
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")


def uses_the_archive(shop: SparkShop, pod: str) -> bool:
    """Whether Java in a pod has mapped the image's archive of classes."""
    return "classes.jsa" in shop.cluster.kubectl("exec", pod, "--", "sh", "-c", "cat /proc/[0-9]*/maps")


@pytest.mark.long
def test_a_resource_that_is_applied_again_while_its_driver_runs_goes_on_with_the_batch(shop: SparkShop) -> None:
    shop.publish()
    shop.running("driver")
    open_batch = shop.spark()["lastBatch"]
    shop.cluster.kubectl("delete", "eventconsumer", NAME)
    shop.apply()
    spark = shop.until_processed()
    assert spark["lastBatch"] >= open_batch and not spark["failures"], spark
    processed = datetime.now(UTC)

    def complete() -> bool:
        """Whether all events are in committed batches, as the watermark says."""
        found = shop.spark().get("watermark")
        return found is not None and datetime.fromisoformat(found["time"]) >= processed

    shop.until(complete, "the watermark has passed the events")
    assert shop.spark()["watermark"]["batch"] == spark["lastBatch"]


@pytest.mark.parametrize(
    ("program", "told", "applied_again"),
    [
        pytest.param(KILL, "killed (exit code 137)", False, id="by a person"),
        pytest.param(
            KILL, "killed (exit code 137)", True, id="and the resource is applied again", marks=pytest.mark.long
        ),
        pytest.param(
            EXHAUST,
            "was killed (OOMKilled): raise spec.spark.driver.memory (now 512m)",
            False,
            id="for its memory",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_driver_that_is_killed_is_followed_by_another_attempt(
    shop: SparkShop, program: str, told: str, applied_again: bool
) -> None:
    if applied_again:
        shop.apply(retry={"backoffSeconds": 20})  # time between two attempts
    shop.publish()
    driver = shop.running("driver")["metadata"]["name"]

    def killed() -> bool:
        """Kill Java as soon as it runs; true after the container has ended."""
        try:
            shop.cluster.kubectl("exec", driver, "--", "python3", "-c", program)
        except DemoError:
            return True
        return any(
            pod["metadata"]["name"] == driver and pod["status"]["phase"] == "Failed" for pod in shop.pods("driver")
        )

    shop.until(killed, "the driver is killed")
    said = shop.until(lambda: shop.spark().get("failures") and shop.spark(), "the failure is counted")
    assert told in said["lastFailure"], said
    if applied_again:
        shop.cluster.kubectl("delete", "eventconsumer", NAME)
        shop.apply()
        spark = shop.until_processed()
        assert spark["lastBatch"] >= said["lastBatch"] and not spark["failures"], spark
        return
    spark = shop.until_processed()
    shop.assert_retried(said["lastBatch"])
    assert (spark["failures"], shop.healthy()["status"]) == (0, "True")


def test_two_batches_are_processed_at_the_same_time_and_committed_in_order(shop: SparkShop) -> None:
    shop.suspend(True)
    shop.apply(batch={"maxFiles": 1, "inFlight": 2})
    shop.publish()
    shop.suspend(False)

    def both() -> list[dict[str, Any]]:
        found = [pod for pod in shop.pods("driver") if pod["status"]["phase"] == "Running"]
        return found if len(found) == 2 else []

    first, second = sorted(shop.until(both, "two drivers run"), key=lambda pod: pod["metadata"]["name"])
    batches = [int(pod["metadata"]["labels"]["eventconsumer.io/batch"]) for pod in (first, second)]
    assert batches[1] == batches[0] + 1, batches
    with contextlib.suppress(DemoError):  # the container ends below the command
        shop.cluster.kubectl("exec", first["metadata"]["name"], "--", "python3", "-c", KILL)
    spark = shop.until_processed()
    assert spark["lastCommit"]["number"] >= batches[1] and not spark["laterBatches"], spark
    # The attempt at the second batch was not disturbed by the failure of the first.
    assert [name for name in shop.applications() if f"-b{batches[1]}-a" in name] == [], shop.applications().keys()
    shop.apply()


@pytest.mark.long
def test_an_application_that_is_deleted_by_hand_is_followed_at_once(shop: SparkShop) -> None:
    shop.publish()
    driver = shop.running("driver")["metadata"]
    shop.cluster.kubectl("delete", "job", driver["labels"]["batch.kubernetes.io/job-name"], "--wait=false")
    shop.until_processed()
    shop.assert_retried(driver["labels"]["eventconsumer.io/batch"])
    assert driver["name"] not in [pod["metadata"]["name"] for pod in shop.pods("driver")]


@pytest.mark.long
def test_an_operator_that_is_killed_right_after_it_started_one_starts_no_second(shop: SparkShop) -> None:
    shop.publish()
    before = set(shop.applications())
    shop.until(lambda: set(shop.applications()) - before, "an application")
    shop.cluster.kubectl("delete", "pod", "-l", OPERATOR, "--grace-period=0", "--force")
    spark = shop.until_processed()
    assert spark["attempt"] == 1, spark
    new = set(shop.applications()) - before
    assert new and not any("-a" in name.rpartition("-b")[2] for name in new), new  # each batch has one attempt


def test_a_large_batch_has_executors_and_survives_the_loss_of_one_and_leaves_nothing(shop: SparkShop) -> None:
    shop.apply(mode="Executors")
    shop.publish()
    executor = shop.running("executor")["metadata"]
    assert executor["ownerReferences"][0]["kind"] == "Pod"
    shop.until(lambda: uses_the_archive(shop, executor["name"]), "Java of the executor maps the archive of classes")
    shop.cluster.kubectl("delete", "pod", executor["name"], "--grace-period=0", "--force")
    spark = shop.until_processed()
    assert (spark["attempt"], spark["mode"]) == (1, "Executors"), spark
    shop.until(lambda: not shop.pods("executor"), "all executors are gone")
    left = shop.cluster.kubectl("get", "services,configmaps", "-o", "name").split()
    assert [name for name in left if "spark" in name and NAME in name and f"/{NAME}-host" not in name] == []


def test_a_resident_driver_processes_later_batches_and_ends_when_it_is_killed_outdated_or_suspended(
    shop: SparkShop,
) -> None:
    def driver() -> dict[str, Any]:
        living = [pod for pod in shop.pods("driver") if pod["status"]["phase"] == "Running"]
        assert len(living) == 1, living
        found: dict[str, Any] = living[0]["metadata"]
        return found

    shop.apply(idleTimeoutSeconds=600)
    shop.publish()
    first = shop.running("driver")["metadata"]
    shop.until_processed()
    assert uses_the_archive(shop, first["name"])
    for _ in range(2):
        shop.publish()
        spark = shop.until_processed()
        job = first["labels"]["batch.kubernetes.io/job-name"]
        assert (driver()["name"], spark["lastApplication"], spark["attempt"]) == (first["name"], job, 1), spark
    shop.until(lambda: "the resident driver" in shop.healthy()["message"], "the condition names the resident driver")
    with contextlib.suppress(DemoError):  # the container ends below the command
        shop.cluster.kubectl("exec", first["name"], "--", "python3", "-c", KILL)
    shop.publish()
    second = shop.running("driver")["metadata"]
    shop.until_processed()
    shop.apply(idleTimeoutSeconds=601)
    shop.until(lambda: second["name"] not in [pod["metadata"]["name"] for pod in shop.pods("driver")], "it is replaced")
    shop.publish()
    third = shop.running("driver")["metadata"]
    shop.until_processed()
    shop.suspend(True)
    shop.until(lambda: third["name"] not in [pod["metadata"]["name"] for pod in shop.pods("driver")], "it is deleted")
    shop.suspend(False)
    shop.apply()


@pytest.mark.long
def test_executors_of_a_resident_driver_end_while_it_waits_and_come_back_with_place_disk_and_settings(
    shop: SparkShop,
) -> None:
    own = image("spark")  # as an image of the user: only with one are there variables and files
    upgrade(shop.demo, "--set", f"nodeLabelPrefixes={{kubernetes.io/os}},sparkImagePrefixes={{{own}}}")
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SETTINGS}, "data": {"MODE": "strict"}}
    shop.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(settings))
    size = {"cores": 1, "coreRequest": "100m", "memory": "512m"}
    pod = size | {"nodeSelector": {"kubernetes.io/os": "linux"}, "scratch": {"size": "256Mi"}}
    shop.apply(
        mode="Executors",
        idleTimeoutSeconds=600,
        driver=pod,
        executor=pod | {"instances": 1},
        application={
            "image": own,
            "envFrom": [{"prefix": "APP_", "configMapRef": {"name": SETTINGS}}],
            "volumes": [{"mountPath": "/config/shop", "configMap": {"name": SETTINGS}}],
        },
    )
    shop.publish()
    for role in ("driver", "executor"):
        found = shop.running(role)
        assert found["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
        name = found["metadata"]["name"]

        def shown(name: str = name) -> list[Any] | None:
            """What the pod sees, as soon as Spark uses its disk."""
            try:
                seen: list[Any] = json.loads(shop.cluster.kubectl("exec", name, "--", "python3", "-c", SHOW))
            except DemoError:
                return None
            return seen if any(each.startswith("blockmgr-") for each in seen[-1]) else None

        assert shop.until(shown, f"Spark uses the disk of the {role}")[:3] == ["strict", "strict", "/scratch"]
    driver = shop.running("driver")["metadata"]["name"]
    shop.until_processed()
    shop.until(lambda: not shop.pods("executor"), "all executors are gone")
    shop.publish()
    executor = shop.running("executor")["metadata"]
    assert executor["ownerReferences"][0]["name"] == driver
    spark = shop.until_processed()
    assert (spark["attempt"], spark["mode"], spark["failures"]) == (1, "Executors", 0), spark
    shop.apply()
    shop.cluster.kubectl("delete", "configmap", SETTINGS)
    upgrade(shop.demo, "--set-json", "nodeLabelPrefixes=[]", "--set-json", "sparkImagePrefixes=[]")


@pytest.mark.long
def test_an_image_that_is_missing_is_told_and_healed_by_the_right_one(shop: SparkShop) -> None:
    upgrade(shop.demo, "--set", f"sparkImagePrefixes={{{MISSING_IMAGE}}}")
    shop.apply(application={"image": MISSING_IMAGE})
    shop.publish()
    found = shop.until(
        lambda: shop.healthy()["status"] == "False" and shop.healthy(), "the condition tells of the image"
    )
    assert found["reason"] == "SparkWaiting" and MISSING_IMAGE in found["message"], found
    assert condition(shop.demo, NAME, "Stalled")["status"] == "True"
    shop.apply()
    shop.until_processed()
    assert shop.healthy()["status"] == "True"
    upgrade(shop.demo, "--set-json", "sparkImagePrefixes=[]")


@pytest.mark.long
def test_a_quota_that_refuses_the_driver_is_told_and_passes(shop: SparkShop) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tight"},
        "spec": {"hard": {"pods": "1"}},
    }
    shop.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(quota))
    shop.publish()
    found = shop.until(lambda: shop.healthy()["status"] == "False" and shop.healthy(), "the condition tells of it")
    assert found["reason"] == "SparkWaiting" and "quota" in found["message"], found
    shop.cluster.kubectl("delete", "resourcequota", "tight")
    shop.apply(timeoutSeconds=600)  # any change has what waits tried anew, where the Job controller would wait longer
    shop.until_processed()


@pytest.mark.long
def test_batches_are_processed_again_into_an_output_of_their_own(shop: SparkShop) -> None:
    shop.apply(mode="Local", reprocess={"name": "again", "from": 1, "to": 3})
    reprocess = shop.until(
        lambda: (shop.spark().get("reprocess") or {}).get("state") == "Succeeded" and shop.spark()["reprocess"],
        "reprocessing succeeds",
    )
    again = shop.rows("_reprocess/again")
    assert (reprocess["batches"], reprocess["rows"]) == (3, len(again)), reprocess
    assert again == sorted(set(again)) and len(again) >= WAVE
    assert shop.rows() == list(range(shop.sent))


@pytest.mark.long
def test_a_file_that_cannot_be_read_is_named_and_left_out(shop: SparkShop) -> None:
    shop.apply(enabled=False)
    shop.publish()
    shop.until(lambda: shop.status()["drained"]["events"] == shop.sent, "all is drained")
    path = shop.damage()
    shop.apply(retry={"attempts": 1, "backoffSeconds": 1})
    found = shop.until(lambda: shop.healthy()["reason"] == "SparkQuarantined" and shop.healthy(), "it is told")
    assert found["status"] == "True" and path in found["message"], found
    shop.until_processed()


def test_finished_applications_are_cleaned_up_but_for_the_last(shop: SparkShop) -> None:
    ended = [
        job["status"]["conditions"][-1]["type"]
        for job in shop.applications().values()
        if job["status"].get("conditions")
    ]
    assert ended.count("Complete") <= 3, ended  # two, and one that has just ended
    assert ended.count("Failed") <= 1, ended
    assert image("spark") == shop.status()["effective"]["sparkImage"]
    shop.cluster.kubectl("delete", "eventconsumer", NAME)
    shop.until(lambda: not shop.applications() and not shop.pods(), "nothing is left")
