"""Secrets that change while hosts run (row 22 of the fault list)."""

import pytest

from tests.faults.stage import (
    Stage,
    logged,
    publish,
    wait_owned,
)
from tests.integration.processor.hosts import HostProcess
from tests.support.azurite import KEY as STORAGE_KEY
from tests.support.servers import KEY, KEY_NAME
from tests.support.waiting import wait_until

NEW_KEY = "bmV3LWtleS1vZi10aGUtdGVzdHM="
BAD_KEY = "YS1rZXktdGhhdC1pcy1yZWZ1c2Vk"


def assert_silent(host: HostProcess) -> None:
    """No key in anything that the host says."""
    everything = host.log + host.get("/status").decode() + host.get("/metrics").decode()
    for key in (STORAGE_KEY, KEY, NEW_KEY, BAD_KEY):
        assert key.strip("=") not in everything
    assert host.process.poll() is None


def test_22_the_hubs_key_is_rotated(stage: Stage) -> None:
    stage.own_emulator()
    orders = stage.consumer(partitions=2)
    host = orders.host("only")
    publish(orders, 100)
    wait_owned(host, 2)
    stage.settled(orders, 200)
    rights = ["Listen", "Send", "Manage"]
    stage.emulator.admin.set_policies((KEY_NAME, KEY, rights), ("drain", NEW_KEY, ["Listen"]))
    orders.hub_secret.write_text(stage.emulator.connection_string(orders.hub, "drain", NEW_KEY))
    wait_until(lambda: bool(logged(host, "a credential changed; registering again")), "the change is seen")
    wait_until(lambda: len(host.owned()) == 2, f"the same process goes on: {host.log[-2000:]}")
    publish(orders, 100, start=200)
    stage.settled(orders, 400)
    stage.emulator.admin.set_policies((KEY_NAME, KEY, rights))  # now the key in the Secret is refused
    stage.emulator.admin.expire_tokens()
    stage.emulator.admin.drop_connections()
    assert host.problem("EventHubUnauthorized").field.startswith("spec.eventHub.authentication")
    assert_silent(host)
    orders.hub_secret.write_text(stage.emulator.connection_string(orders.hub))
    publish(orders, 100, start=400)
    stage.settled(orders, 600)
    wait_until(lambda: not host.report().problems, "no problem is left")
    assert_silent(host)


@pytest.mark.parametrize("text", ["bad-key", "no-connection-string", "removed"])
def test_22_the_storage_secret_becomes_bad(stage: Stage, text: str) -> None:
    orders = stage.consumer(partitions=2)
    host = orders.host("only")
    publish(orders, 100)
    wait_owned(host, 2)
    stage.settled(orders, 200)
    good = orders.storage_secret.read_text()
    if text == "bad-key":
        orders.storage_secret.write_text(good.replace(STORAGE_KEY, BAD_KEY))
    elif text == "removed":
        orders.storage_secret.unlink()
    else:
        orders.storage_secret.write_text(f"AccountKey {BAD_KEY}")
    reasons = {
        "bad-key": "StorageUnauthorized",
        "no-connection-string": "ConnectionStringInvalid",
        "removed": "SecretKeyMissing",
    }
    problem = host.problem(reasons[text])
    assert problem.field.endswith("connectionStringSecretRef")
    assert_silent(host)
    publish(orders, 100, start=200)
    orders.storage_secret.write_text(good)
    wait_owned(host, 2)
    stage.settled(orders, 400)
    wait_until(lambda: not host.report().problems, "no problem is left")
    assert_silent(host)
