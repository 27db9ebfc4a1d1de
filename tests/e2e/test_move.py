"""A consumer whose namespace is deleted in the middle of a batch, and that is restored in another namespace."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from eventconsumer_demo.cluster import Cluster
from tests.e2e.conftest import NAMESPACE, Demo
from tests.e2e.sparkshop import WAVE, SparkShop, upgrade

pytestmark = pytest.mark.long

NAME = "moved"
OLD, NEW = "moved-from", "moved-to"


def at(demo: Demo, namespace: str) -> Demo:
    """The same cluster, with another default namespace."""
    cluster = Cluster(namespace)
    cluster._env = demo.cluster._env
    return replace(demo, cluster=cluster)


def shop_in(demo: Demo, namespace: str) -> SparkShop:
    spark = {"retry": {"backoffSeconds": 1}, "output": {"format": "Parquet"}}
    return SparkShop(at(demo, namespace), NAME, "jobs", **spark)


@pytest.fixture(scope="module")
def served(demo: Demo) -> Iterator[Demo]:
    """An operator that serves both namespaces too."""
    for namespace in (OLD, NEW):
        demo.cluster.ensure_namespace(namespace)
    upgrade(demo, "--set", f"watchNamespaces={{{NAMESPACE},{OLD},{NEW}}}")
    yield demo
    upgrade(demo, "--set", f"watchNamespaces={{{NAMESPACE}}}")
    demo.cluster.run("kubectl", "delete", "namespace", OLD, NEW, "--ignore-not-found")


def test_an_open_batch_goes_on_in_another_namespace_and_batches_frozen_before_are_reprocessed(served: Demo) -> None:
    before = shop_in(served, OLD)
    before.publish()
    first = before.until_processed()
    before.publish()
    before.running("driver")
    open_batch = before.spark()["lastBatch"]
    assert open_batch > first["lastBatch"]
    served.cluster.run("kubectl", "delete", "namespace", OLD, timeout=180)

    after = shop_in(served, NEW)
    after.sent = before.sent
    spark = after.until_processed()
    assert spark["lastBatch"] >= open_batch and not spark["failures"], spark
    both_waves = spark["lastBatch"]
    after.publish()
    after.until_processed()

    after.apply(reprocess={"name": "again", "from": 1, "to": both_waves})
    reprocess = after.until(
        lambda: (after.spark().get("reprocess") or {}).get("state") == "Succeeded" and after.spark()["reprocess"],
        "reprocessing succeeds",
    )
    assert reprocess["rows"] == 2 * WAVE, reprocess
    assert after.rows() == list(range(after.sent))
