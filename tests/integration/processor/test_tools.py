"""The tools beside real hosts: what they print, what they refuse while a host owns, where hosts go on."""

import contextlib
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
import structlog
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from eventconsumer_tools import cli
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.integration.processor.legacy_host import LegacyHost
from tests.support.audited import Leases, assert_clean
from tests.support.azurite import ACCOUNT, KEY
from tests.support.waiting import wait_until


class Answer(NamedTuple):
    """Of a command."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """The program silences logs for the whole process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def tool(consumer: Consumer, *arguments: str) -> Answer:
    """Run a command as in a pod of this consumer; in this process, since a new one takes long on a busy machine."""
    file = consumer.directory / "tool.json"
    file.write_text(json.dumps(consumer.config))
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = cli.main([*arguments, "--config", str(file)])
    return Answer(code, stdout.getvalue(), stderr.getvalue())


def document(consumer: Consumer, *arguments: str, code: int = 0) -> dict[str, Any]:
    """The one JSON document of a command that ends with this code."""
    result = tool(consumer, *arguments, "-o", "json")
    assert result.code == code, result
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def drained(consumer: Consumer) -> None:
    """Wait until all is in files and all checkpoints are written."""

    def done() -> bool:
        rows = document(consumer, "lag")["partitions"]
        return all(row["events"] == 0 and (row["checkpoint"] == row["head"] or row["head"] < 0) for row in rows)

    wait_until(done, "all is drained")


def prepare(consumer: MakeConsumer, layout: str, **overrides: Any) -> Consumer:
    """A consumer of two partitions, in one of the layouts."""
    orders = consumer(partitions=2, **overrides)
    orders.config["leases"] |= {"layout": layout}
    return orders


def run_until_drained(orders: Consumer, name: str = "orders-host-0") -> HostProcess:
    """A host that has drained everything."""
    host = orders.host(name)
    drained(orders)
    return host


def test_a_checkpoint_is_set_only_while_nobody_owns_the_partition(consumer: MakeConsumer) -> None:
    orders = prepare(consumer, "EventProcessorHost")
    orders.publish(200, "0")
    host = run_until_drained(orders)
    set_ = ("checkpoint", "set", "--partition", "0", "--sequence-number", "199", "--yes")
    plan = document(orders, *set_, code=2)
    assert (plan["refused"], plan["done"], plan["steps"][0]["action"]) == (True, False, "refuse")
    assert "orders-host-0" in plan["steps"][0]["why"]
    assert "suspend" in plan["steps"][0]["remedy"]
    host.terminate()

    assert document(orders, *set_)["steps"][0]["action"] == "keep"
    export = tool(orders, "checkpoint", "export", "-").stdout
    number = document(orders, "files", "--partition", "0")["files"][0]["lastSequenceNumber"]
    back = ("checkpoint", "set", "--partition", "0", "--sequence-number", str(min(number, 100)))
    refusal = document(orders, *back, code=2)["steps"][0]
    assert "--allow-behind" in refusal["remedy"]
    plan = document(orders, *back, "--allow-behind")
    assert (plan["dryRun"], plan["steps"][0]["action"], plan["steps"][0]["done"]) == (True, "set", False)
    assert document(orders, "checkpoint", "show")["checkpoints"][0]["sequenceNumber"] == 199
    done = document(orders, *back, "--allow-behind", "--yes")["steps"][0]
    assert (done["done"], done["from"]["sequenceNumber"]) == (True, 199)
    assert document(orders, "checkpoint", "show")["checkpoints"][0]["sequenceNumber"] == min(number, 100)
    with orders.container(orders.leases) as container:
        kept = container.download_blob(done["backup"]).readall()
    saved = orders.directory / "kept.json"
    for content, name in ((kept, "kept"), (export.encode(), "export")):
        saved.write_bytes(content)
        plan = document(orders, "checkpoint", "import", str(saved), "--yes")
        assert plan["done"], name
        assert document(orders, "checkpoint", "show")["checkpoints"][0]["sequenceNumber"] == 199
    assert document(orders, "checkpoint", "set", "--partition", "0", "--sequence-number", "5000", code=2)["refused"]

    orders.publish(30, "0", start=200)
    run_until_drained(orders, "orders-host-1").terminate()
    report = assert_clean(orders.azurite, orders.drained, "shop/orders", Leases(orders.leases))
    assert sum(partition["events"] for partition in report["partitions"]) == 230


def test_check_tells_what_is_wrong(consumer: MakeConsumer) -> None:
    orders = prepare(consumer, "EventProcessorHost")
    report = document(orders, "check")
    assert report["ok"]
    assert [(one["check"], one["ok"]) for one in report["checks"]] == [
        ("hub-credential", True),
        ("hub-reachable", True),
        ("hub-exists", True),
        ("hub-partitions", True),
        ("consumer-group", True),
        ("hub-unchanged", True),
        ("chain-identity", True),
        ("checkpoint-identity", True),
        ("checkpoint-credential", True),
        ("checkpoint-container", True),
        ("checkpoint-writable", None),
        ("sink-credential", True),
        ("sink-container", True),
        ("sink-writable", None),
        ("clock", True),
    ]
    with orders.container(orders.leases) as leases, orders.container(orders.drained) as sink:
        leases.create_container()
        sink.create_container()
        checks = {one["check"]: one["ok"] for one in document(orders, "check")["checks"]}
        assert set(checks.values()) == {True} and "checkpoint-account" in checks
        assert [*leases.list_blobs(), *sink.list_blobs()] == []
    orders.config["processing"] |= {"handler": "shop:Shop"}
    orders.config["notices"] = {"url": "http://127.0.0.1:9/files"}
    checks = {one["check"]: one["ok"] for one in document(orders, "check", code=2)["checks"]}
    assert (checks.pop("notices-endpoint"), checks["dead-letters"], set(checks.values())) == (False, True, {True})
    del orders.config["notices"]
    orders.config["eventHub"] |= {"consumerGroup": "nobody"}
    orders.config["sink"]["credential"] |= {"connectionStringFile": "/nowhere"}
    failed = {one["check"]: one for one in document(orders, "check", code=2)["checks"] if one["ok"] is False}
    assert failed.keys() == {"consumer-group", "sink-credential"}
    assert all(one["detail"] and one["remedy"] for one in failed.values())
    orders.config["eventHub"]["credential"] |= {"connectionStringFile": "/nowhere"}
    names = {one["check"]: one["ok"] for one in document(orders, "check", code=2)["checks"]}
    assert (names["hub-credential"], names["hub-reachable"], names["hub-unchanged"]) == (False, None, None)


def test_a_signature_for_each_container_is_enough(consumer: MakeConsumer) -> None:
    """It permits neither to create a container nor to ask whether it exists."""
    orders = prepare(consumer, "EventProcessorHost")
    orders.publish(50)
    for location in (orders.config["leases"]["location"], orders.config["sink"]):
        name = location["container"]
        signature = generate_container_sas(
            ACCOUNT,
            name,
            KEY,
            permission=ContainerSasPermissions(read=True, create=True, write=True, delete=True, list=True),
            expiry=datetime.now(UTC) + timedelta(hours=1),
        )
        file = orders.directory / f"signature-{name}"
        file.write_text(f"BlobEndpoint={orders.azurite.url};SharedAccessSignature={signature}")
        location["credential"] |= {"connectionStringFile": str(file)}
    host = orders.host()
    assert "does not exist" in host.problem("ContainerInvalid").message
    missing = {one["check"]: one for one in document(orders, "check")["checks"]}
    assert "does not exist yet" in missing["sink-container"]["detail"]
    for name in (orders.leases, orders.drained):
        with orders.container(name) as container:
            container.create_container()
    checks = {one["check"]: one for one in document(orders, "check")["checks"]}
    assert {one["ok"] for one in checks.values()} == {True}
    drained(orders)
    assert host.terminate() == 0
    report = assert_clean(orders.azurite, orders.drained, "shop/orders", Leases(orders.leases))
    assert sum(partition["events"] for partition in report["partitions"]) == 50


def test_hosts_go_on_where_a_legacy_host_stopped(consumer: MakeConsumer) -> None:
    orders = prepare(consumer, "AzureSdk")
    orders.publish(40, "0")
    offset = orders.last_offset("0")
    orders.publish(60, "0", start=40)
    orders.publish(60, "1")
    migrate = ("migrate", "--from", "event-processor-host", "--container", orders.azurite.container())
    assert tool(orders, *migrate).code == 1
    with orders.container(migrate[-1]) as container:
        container.create_container()
        old = LegacyHost("old-host", container)
        old.register(["0", "1"])
        old.step()
        assert old.checkpoint("0", offset, 39)
        held = document(orders, *migrate, "--yes", code=2)
        assert {step["action"] for step in held["steps"]} == {"refuse"}
        assert "old-host" in held["steps"][0]["why"]
        old.release_all()
    assert document(orders, *migrate)["dryRun"]
    done = document(orders, *migrate, "--yes")
    assert [(step["partition"], step["action"], step["done"]) for step in done["steps"]] == [
        ("0", "set", True),
        ("1", "keep", False),
    ]
    run_until_drained(orders).terminate()
    report = assert_clean(orders.azurite, orders.drained, "shop/orders", Leases(orders.leases, layout="AzureSdk"))
    found = {partition["partition"]: (partition["start"], partition["events"]) for partition in report["partitions"]}
    assert found == {"0": (40, 60), "1": (0, 60)}
