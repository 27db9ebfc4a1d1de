"""The launcher Kubeflow on the real cluster: the kubeflow Spark operator, executors as pods, and no attempt twice."""

import json
from collections.abc import Iterator
from string import Template

import pytest

from eventconsumer_demo import run
from eventconsumer_operator.kube.manifest import KUBEFLOW_APPLICATION
from tests.e2e.conftest import ROOT, Demo
from tests.e2e.gitops.engine import local
from tests.e2e.sparkshop import SparkShop, upgrade
from tests.e2e.waiting import until

pytestmark = pytest.mark.long

NAME = "kubeflow-launches-this-consumer"  # long enough for every name that is made of it
SHORT = NAME[:28]  # what the names of its applications begin with
DEFINITION = ROOT / "tests/support/definitions/sparkoperator.k8s.io_sparkapplications.yaml"
APPLICATIONS = "sparkapplications.sparkoperator.k8s.io"
LEFT_BEHIND = "pods,services,configmaps"


def things(demo: Demo) -> set[str]:
    """All objects in the namespace that an application can leave behind."""
    found = demo.cluster.kubectl("get", f"{LEFT_BEHIND},{APPLICATIONS}", "-o", "name").split()
    return {name for name in found if f"/{NAME}-host" not in name}


@pytest.fixture(scope="module")
def shop(demo: Demo) -> Iterator[SparkShop]:
    """The consumer, with the kubeflow operator in the demo's namespace."""
    local("tools", "--kubeflow")
    local("build", "spark", "kubeflow")
    cluster = demo.cluster
    cluster.kubectl("apply", "--server-side", "-f", str(DEFINITION))
    served = f"/apis/{KUBEFLOW_APPLICATION.api_version}"
    # `kubectl wait` would give up at once where the definition's status has no conditions yet.
    until(lambda: cluster.kubectl("get", "--raw", served), "the definition is served")
    operator = ROOT / "local/cluster/kubeflow/kubeflow.yaml"
    images = json.loads(local("images", "kubeflow"))
    values = {"KUBEFLOW_IMAGE": images["kubeflow"], "SERVED": cluster.namespace}
    cluster.run("kubectl", "apply", "-f", "-", stdin=Template(operator.read_text()).substitute(values))
    cluster.run("kubectl", "-n", "spark-operator", "rollout", "status", "deployment/spark-operator", "--timeout=90s")
    upgrade(demo, "--set", "sparkLaunchers={Kubeflow}")
    found = SparkShop(demo, NAME, APPLICATIONS, retry={"backoffSeconds": 0}, launcher="Kubeflow")
    yield found
    cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")
    upgrade(demo, "--set-json", "sparkLaunchers=[]")
    cluster.run("kubectl", "delete", "namespace", "spark-operator", "--wait=false")
    for plural in ("sparkapplications", "scheduledsparkapplications", "sparkconnects"):
        cluster.run("kubectl", "delete", "crd", f"{plural}.sparkoperator.k8s.io", "--ignore-not-found", "--wait=false")


def test_a_batch_is_processed_by_a_driver_and_executors_of_their_own(shop: SparkShop) -> None:
    shop.publish()
    executors = shop.until(lambda: shop.pods("executor"), "an executor")
    assert all(each["metadata"]["ownerReferences"][0]["kind"] == "Pod" for each in executors)
    spark = shop.until_processed()
    assert (spark["attempt"], spark["mode"], spark["failures"]) == (1, "Executors", 0)
    (application,) = shop.applications().values()
    shop.until(
        lambda: (
            shop.applications()[application["metadata"]["name"]]["status"]["applicationState"]["state"] == "COMPLETED"
        ),
        "the application has completed",
    )
    (driver,) = shop.pods("driver")
    assert driver["metadata"]["labels"]["eventconsumer.io/batch"] == "1"
    assert "SharedKey" not in json.dumps(driver) and run.STORAGE_KEY not in json.dumps(driver)


def test_a_resident_driver_processes_later_batches_and_ends_when_the_spec_has_none(shop: SparkShop) -> None:
    shop.apply(idleTimeoutSeconds=600)
    shop.publish()
    driver = shop.running("driver")["metadata"]
    shop.until_processed()
    shop.publish()
    spark = shop.until_processed()
    application = driver["labels"]["sparkoperator.k8s.io/app-name"]
    assert (spark["lastApplication"], spark["attempt"], spark["failures"]) == (application, 1, 0), spark
    shop.apply()
    shop.until(lambda: driver["name"] not in [pod["metadata"]["name"] for pod in shop.pods("driver")], "it is deleted")


def test_a_driver_that_is_killed_is_followed_by_another_attempt(shop: SparkShop) -> None:
    shop.publish()
    metadata = shop.running("driver")["metadata"]
    driver = metadata["name"]
    shop.cluster.kubectl("delete", "pod", driver, "--grace-period=0", "--force")
    shop.until(lambda: shop.spark().get("attempt") == 2, "a second attempt")
    shop.until_processed()
    shop.assert_retried(metadata["labels"]["eventconsumer.io/batch"])
    states = {name: each["status"]["applicationState"]["state"] for name, each in shop.applications().items()}
    assert states[driver.removesuffix("-driver")] == "FAILED"


def test_an_application_that_is_deleted_by_hand_is_followed_by_another_and_its_driver_goes(shop: SparkShop) -> None:
    shop.publish()
    metadata = shop.running("driver")["metadata"]
    driver = metadata["name"]
    shop.cluster.kubectl("delete", APPLICATIONS, driver.removesuffix("-driver"), "--wait=false")
    shop.until(lambda: driver not in [pod["metadata"]["name"] for pod in shop.pods("driver")], "the driver goes")
    shop.until_processed()
    shop.assert_retried(metadata["labels"]["eventconsumer.io/batch"])
    assert shop.healthy()["status"] == "True"


def test_nothing_is_left_of_a_consumer_that_is_deleted_while_one_runs(shop: SparkShop) -> None:
    shop.publish()
    shop.running("driver")

    def left() -> list[str]:
        """Applications, pods and config maps named after it, and services and config maps that Spark names itself."""
        return [name for name in things(shop.demo) if f"/{SHORT}" in name or "/spark-" in name]

    kinds = {name.partition("/")[0] for name in left()}
    assert kinds >= {"pod", "service", "configmap", APPLICATIONS.replace("applications", "application", 1)}, kinds
    shop.cluster.kubectl("delete", "eventconsumer", NAME)
    shop.until(lambda: not left(), "nothing left")
