"""Native Spark applications on the real cluster: executors, resident drivers, and settings that do not work at first.

The short run has the same beside the test: a resident driver and an executor in `tests/integration/spark`
(test_resident.py, test_executor.py), and their pods as Spark makes them (test_pods.py); the demo's second wave goes to
the resident driver of the first.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import Demo, image
from tests.e2e.sparkshop import KILL, WAVE, SparkShop, native, upgrade
from tests.e2e.waiting import condition

pytestmark = pytest.mark.long
NAME = "native-spark-keeps-its-programs"  # long enough for every name that is made of it
MISSING_IMAGE = "not-there.example/spark:1"
# The settings of the program, Spark's local directory, and its contents.
SHOW = """
import json, os, pathlib
file = pathlib.Path("/config/shop/MODE").read_text()
print(json.dumps([os.environ["APP_MODE"], file, os.environ["SPARK_LOCAL_DIRS"], os.listdir("/scratch")]))
"""
SETTINGS = "spark-settings"


@pytest.fixture(scope="module")
def shop(demo: Demo) -> Iterator[SparkShop]:
    """The consumer; removed at the end."""
    yield from native(demo, NAME)


def uses_the_archive(shop: SparkShop, pod: str) -> bool:
    """Whether Java in a pod has mapped the image's archive of classes."""
    return "classes.jsa" in shop.cluster.kubectl("exec", pod, "--", "sh", "-c", "cat /proc/[0-9]*/maps")


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


def test_a_missing_image_is_reported_and_the_right_one_is_used(shop: SparkShop) -> None:
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


def test_a_quota_that_refuses_the_driver_is_reported_until_it_allows_it(shop: SparkShop) -> None:
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


def test_a_file_that_cannot_be_read_is_named_and_left_out(shop: SparkShop) -> None:
    shop.apply(enabled=False)
    shop.publish()
    shop.until(lambda: shop.status()["drained"]["events"] == shop.sent, "all is drained")
    path = shop.damage()
    shop.apply(retry={"attempts": 1, "backoffSeconds": 1})
    found = shop.until(lambda: shop.healthy()["reason"] == "SparkQuarantined" and shop.healthy(), "it is told")
    assert found["status"] == "True" and path in found["message"], found
    shop.until_processed()
