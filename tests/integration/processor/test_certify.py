"""`eventconsumer certify` on the emulator and Azurite: every check is carried out, and nothing stays."""

import contextlib
import dataclasses
import io
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient, ContainerSasPermissions, generate_container_sas

from eventconsumer_tools import cli
from eventconsumer_tools.certify import events, storage
from eventconsumer_tools.certify.command import certify, from_files, groups
from eventconsumer_tools.certify.model import SLOW, CheckOutcome
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("logs_as_before")

GROUP = "certify"
# Azurite refuses put-if-absent where only blocks exist; the service does not.
OF_AZURITE = {"staged-blocks-no-obstacle"}


@pytest.fixture
def orders(consumer: MakeConsumer, emulator: EmulatorProcess) -> Consumer:
    """A consumer of a hub with a second consumer group."""
    found = consumer(partitions=2)
    emulator.admin.delete_hub("orders")
    emulator.admin.create_hub("orders", partitions=2, groups=[GROUP])
    return found


def run(orders: Consumer, *options: str, group: str = GROUP) -> tuple[int, str, str]:
    """The command as in a pod of this consumer: exit code, stdout, stderr."""
    file = orders.directory / "certify.json"
    file.write_text(json.dumps(orders.config))
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = cli.main(["certify", "--consumer-group", group, "--config", str(file), *options])
    return code, stdout.getvalue(), stderr.getvalue()


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    """Result by check."""
    return {each["check"]: each["outcome"] for each in report["results"]}


def containers(azurite: AzuriteProcess) -> set[str]:
    """The containers of the account."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        return {found.name for found in service.list_containers()}


def test_every_assumption_is_checked_and_nothing_stays(orders: Consumer, emulator: EmulatorProcess) -> None:
    before = containers(orders.azurite)
    code, text, progress = run(orders, "--send", "-o", "json")
    report = json.loads(text)
    found = outcomes(report)
    differing = {each["check"] for each in report["results"] if each["outcome"] == "differs"}
    assert differing == OF_AZURITE, report
    assert code == 1
    passed = {check for check, outcome in found.items() if outcome == "passed"}
    assert {check for check, outcome in found.items() if outcome == "failed"} == set()
    slow = {each.name for each in (*groups(), *storage.LEASES) if SLOW in each.options}
    assert found.keys() - passed - OF_AZURITE == slow | {"absent-hub"}, report
    assert all(each["detail"] and each["check"] in progress for each in report["results"])
    assert orders.hub_secret.read_text() not in text and KEY not in text and "SAS_KEY_VALUE" not in text
    assert containers(orders.azurite) == before
    assert emulator.admin.links() == []

    code, text, _ = run(orders)  # the events of the first run are there
    assert code == 1
    assert "needs --send" in text and "staged-blocks-no-obstacle differs" in text
    assert "consequence: " in text and "0 failed" in text and "amqp:link:stolen" in text


async def test_checks_that_wait(orders: Consumer) -> None:
    target = from_files(orders.hub_secret, orders.storage_secret, "", GROUP, (SLOW,))
    target = dataclasses.replace(target, token_seconds=2)
    report = await certify(target, lambda _: None)
    found = {each.check: each.outcome for each in report.results}
    assert {found["lease-expired"], found["token-expiry"]} == {CheckOutcome.PASSED}, report.results
    # Without --send, and without events, nothing is known about positions.
    without = {each.name for each in events.EVENTS}
    assert {found[name] for name in without} == {CheckOutcome.SKIPPED}


def test_a_signature_of_one_container_uses_a_folder_of_it(orders: Consumer, azurite: AzuriteProcess) -> None:
    with orders.container(orders.drained) as container:
        container.create_container()
    signature = generate_container_sas(
        ACCOUNT,
        orders.drained,
        account_key=KEY,
        expiry=datetime.now(UTC) + timedelta(hours=1),
        permission=ContainerSasPermissions(read=True, write=True, delete=True, list=True, create=True, add=True),
    )
    orders.config["sink"] |= {"storageAccountUrl": azurite.url}
    orders.storage_secret.write_text(f"BlobEndpoint={azurite.url};SharedAccessSignature={signature}")
    orders.config["leases"]["location"] |= {"container": orders.drained, "prefix": "shop/orders"}
    before = containers(azurite)
    code, text, progress = run(orders, "-o", "json")
    found = outcomes(json.loads(text))
    assert (code, found["wrong-account-key"]) == (1, "skipped"), text
    assert {name for name, outcome in found.items() if outcome == "differs"} >= OF_AZURITE
    assert found["writable"] == found["lease-exclusive"] == found["put-if-absent-contended"] == "passed"
    assert f"{orders.drained}/shop/orders/_certify/" in progress
    assert containers(azurite) == before
    with orders.container(orders.drained) as container:
        assert list(container.list_blobs(include=["uncommittedblobs"])) == []


def test_a_consumer_group_in_use_is_refused(orders: Consumer, emulator: EmulatorProcess) -> None:
    before = containers(orders.azurite)
    code, text, message = run(orders, group="$default")
    assert (code, text) == (2, "") and "is the consumer group of EventConsumer shop/orders" in message
    code, text, message = run(orders, "--connection-string-file", str(orders.storage_secret))
    assert (code, text) == (2, "") and "are used together" in message
    code, text, message = run(orders, group="absent")
    assert (code, text) == (2, "") and "has no consumer group absent" in message
    other = orders.host("reader", eventHub=orders.config["eventHub"] | {"consumerGroup": GROUP})
    wait_until(lambda: {link["partition"] for link in emulator.admin.links()} == {"0", "1"}, "a host reads")
    code, text, message = run(orders)
    assert (code, text) == (2, "") and f"consumer group {GROUP} has readers" in message
    assert {link["group"] for link in emulator.admin.links()} == {GROUP}, "it still reads"
    assert other.terminate() == 0
    assert not {name for name in containers(orders.azurite) - before if "certify" in name}


async def test_a_lost_terminal_leaves_nothing(orders: Consumer) -> None:
    before = containers(orders.azurite)

    def tell(line: str) -> None:
        if "put-if-absent" in line:
            assert len(containers(orders.azurite)) == len(before) + 1
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await certify(from_files(orders.hub_secret, orders.storage_secret, "", GROUP, ()), tell)
    assert containers(orders.azurite) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(orders: Consumer, emulator: EmulatorProcess, number: signal.Signals) -> None:
    before = containers(orders.azurite)
    file = orders.directory / "certify.json"
    file.write_text(json.dumps(orders.config))
    command = ["certify", "--consumer-group", GROUP, "--slow", "--config", str(file), "-o", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "eventconsumer_tools", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for progress in process.stderr:  # the lease of lease-expired is being waited for
            if "lease-broken" in progress:
                break
        process.send_signal(number)
        text, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    report = json.loads(text)
    assert report["stopped"] and report["leftovers"] == []
    assert outcomes(report)["lease-expired"] == "skipped"
    assert process.returncode == 1  # staged-blocks-no-obstacle differs
    assert containers(orders.azurite) == before
    wait_until(lambda: emulator.admin.links() == [], "all links are closed")
