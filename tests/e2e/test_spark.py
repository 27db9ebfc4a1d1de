"""Native Spark applications on the real cluster, in the driver, and their failures.

Each test publishes a wave of events, disturbs the application that processes it, and finds every event in the table
exactly once.
"""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import Demo, image
from tests.e2e.sparkshop import KILL, SparkShop, native

NAME = "native-spark-processes-this-one"  # long enough for every name that is made of it
OPERATOR = "app.kubernetes.io/component=operator"
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
    yield from native(demo, NAME)


@pytest.mark.long
def test_a_resource_applied_again_while_its_driver_runs_continues_the_batch(shop: SparkShop) -> None:
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


@pytest.mark.long  # unit/operator/spark/test_attempts.py: ParallelBatchesGetDone
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
