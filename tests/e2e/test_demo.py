"""The demo's path, end to end on the real parts: hub -> hosts -> files -> Spark -> result."""

import json
from functools import partial

import pytest

from eventconsumer_demo import run
from eventconsumer_demo.run import QUERY
from tests.e2e.conftest import EVENTS, Demo
from tests.e2e.waiting import until

ALL = EVENTS + EVENTS // 5  # with the second wave

pytestmark = pytest.mark.timeout(3600)


def test_every_event_is_in_the_result_exactly_once(demo: Demo) -> None:
    assert demo.exit_code == 0, demo.output
    assert "customer-" in demo.output.partition(QUERY)[2].partition("[7/10]")[0], "rows of the query"
    assert f"Every one of {EVENTS:,} events is in both Delta tables exactly once (version" in demo.output
    assert f"Every one of {ALL:,} events is in both Delta tables exactly once (version" in demo.output


def test_status_tells_the_whole_story(demo: Demo) -> None:
    resource = demo.cluster.get("eventconsumer", "orders")
    status = resource["status"]
    conditions = {each["type"]: each for each in status["conditions"]}
    assert conditions["Ready"]["status"] == "True"
    assert conditions["Stalled"]["status"] == "False"
    assert conditions["SparkHealthy"]["status"] == "True"
    assert status["observedGeneration"] == resource["metadata"]["generation"]
    assert status["hub"]["partitionCount"] == 8
    assert status["hosts"] == {"desired": 4, "ready": 4}
    assert status["partitions"] == {"total": 8, "owned": 8, "unowned": 0}
    assert status["drained"]["events"] == ALL
    assert status["lag"]["events"] == 0
    assert status["spark"]["processedFiles"] == status["drained"]["files"]


def test_printer_columns(demo: Demo) -> None:
    header, row = demo.cluster.kubectl("get", "evc", "orders").splitlines()
    assert header.split() == ["NAME", "READY", "HUB", "GROUP", "HOSTS", "PARTITIONS", "LAG", "SUSPENDED", "AGE"]
    assert row.split()[:8] == ["orders", "True", "orders", "$Default", "4", "8", "0", "false"]


def test_the_operator_reads_no_secret(demo: Demo) -> None:
    account = "system:serviceaccount:eventconsumer-demo:eventconsumer-operator"
    answer = demo.cluster.run("kubectl", "auth", "can-i", "--list", "-n", "eventconsumer-demo", f"--as={account}")
    assert "eventconsumers" in answer
    assert "secrets" not in answer


def test_the_driver_of_the_first_batch_stays_for_the_second_wave(demo: Demo) -> None:
    spark = demo.cluster.get("eventconsumer", "orders")["status"]["spark"]
    assert spark["lastBatch"] >= 2 and spark["lastApplication"].endswith("-b1"), spark


def test_a_small_batch_runs_in_its_driver_which_has_no_other_permission(demo: Demo) -> None:
    spark = demo.cluster.get("eventconsumer", "orders")["status"]["spark"]
    assert (spark["attempt"], spark["mode"], spark["failures"]) == (1, "Local", 0)
    labels = "eventconsumer.io/consumer=orders,app.kubernetes.io/component=spark"
    drivers = demo.cluster.get("pods", "-l", labels)["items"]
    assert drivers
    for driver in drivers:
        assert driver["metadata"]["labels"].get("spark-role") != "executor"
        assert not any("serviceAccountToken" in json.dumps(volume) for volume in driver["spec"]["volumes"])
        assert run.STORAGE_KEY not in json.dumps(driver)


def test_no_key_in_any_log(demo: Demo) -> None:
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq"
    pods = demo.cluster.get("pods", "-l", "eventconsumer.io/consumer=orders")["items"]
    names = [pod["metadata"]["name"] for pod in pods]
    assert sum(name.startswith("orders-host-") for name in names) == 4
    assert any("-b1-" in name for name in names), "the Spark driver"
    for name in [*names, "deployment/eventconsumer-operator"]:
        log = until(partial(demo.cluster.kubectl, "logs", name), f"{name} logs something")
        assert key not in log, f"the storage key stands in the log of {name}"
        assert "SAS_KEY_VALUE" not in log, f"the hub key stands in the log of {name}"
