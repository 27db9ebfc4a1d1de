"""Identity on the real cluster: two hubs in one container of leases, and two resources on one chain of files."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Demo
from tests.e2e.consumers import GOOD_NAMESPACE, GOOD_STORAGE, consumer, create_hub, emulator_admin
from tests.e2e.test_plugin import Plugin
from tests.e2e.waiting import condition, until, wait_for

# The short run has two hubs beside each other and a failover that is accepted in tests/simulation (worlds "beside",
# rules "fail over" and "accept"), and the command in tests/contract/tools/commands.
pytestmark = pytest.mark.long
ORDERS, BILLING, HEIR, LATER = "identity-orders", "identity-billing", "identity-heir", "identity-later"
EVENTS = {ORDERS: 400, BILLING: 600}  # what the first drained must not be skipped in the second


def resource_of(name: str, hub: str, prefix: str) -> dict[str, Any]:
    """A consumer whose leases and files are in shared containers; the leases have no prefix in the spec."""
    found = consumer(name)
    spec = found["spec"]
    spec["eventHub"]["name"] = hub
    spec["eventHub"]["authentication"]["connectionStringSecretRef"]["name"] = "identity-hubs"
    for part in ("checkpointStore", "sink"):
        spec[part]["container"] = "identity"
        spec[part]["authentication"]["connectionStringSecretRef"]["name"] = "identity-storage"
    spec["checkpointStore"].pop("prefix", None)
    spec["sink"]["prefix"] = prefix
    return found


def apply(demo: Demo, name: str, hub: str, prefix: str) -> None:
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(resource_of(name, hub, prefix)))


def publish(demo: Demo, hub: str, count: int) -> None:
    with emulator_admin(demo.cluster) as admin:
        for number in range(count):
            admin.put_event(hub, str(number % 2), str(number).encode())


def drained(demo: Demo, name: str) -> int:
    """Events in its files, by its status."""
    status = demo.cluster.get("eventconsumer", name).get("status", {})
    return int(status.get("drained", {}).get("events") or 0)


@pytest.fixture(scope="module")
def shop(demo: Demo) -> Iterator[Demo]:
    """Two consumers of two hubs, as in the examples; the first has drained its hub before the second starts."""
    demo.cluster.secret("identity-hubs", connectionString=GOOD_NAMESPACE)
    demo.cluster.secret("identity-storage", connectionString=GOOD_STORAGE)
    for name, count in EVENTS.items():
        create_hub(demo, name)
        apply(demo, name, name, f"drained/{name}")
        publish(demo, name, count)
        until(lambda name=name, count=count: drained(demo, name) == count, f"{name}: all {count} events in files")
    yield demo
    demo.cluster.kubectl("delete", "eventconsumer", *EVENTS, HEIR, LATER, "--ignore-not-found")


def test_two_hubs_with_one_lease_container_are_both_drained(shop: Demo) -> None:
    for name, count in EVENTS.items():
        assert drained(shop, name) == count
        assert wait_for(shop, name, "Ready", "True")
        shop.cluster.kubectl("exec", f"{name}-host-0", "--", "eventconsumer", "audit", "--deep")


def test_a_second_resource_on_a_chain_waits_until_the_first_is_deleted_and_continues(shop: Demo) -> None:
    apply(shop, HEIR, ORDERS, f"drained/{ORDERS}")
    stalled = wait_for(shop, HEIR, "Stalled", "True")
    assert stalled["reason"] == "ChainInUse", stalled
    assert f"/{ORDERS} " in stalled["message"] and f"/{HEIR} " in stalled["message"], stalled
    publish(shop, ORDERS, 100)
    until(lambda: drained(shop, ORDERS) == EVENTS[ORDERS] + 100, "the first one goes on")
    assert condition(shop, ORDERS, "Ready")["status"] == "True"
    shop.cluster.kubectl("delete", "eventconsumer", ORDERS)
    publish(shop, ORDERS, 100)
    until(lambda: drained(shop, HEIR) == EVENTS[ORDERS] + 200, "the second one goes on where the first ended")
    assert wait_for(shop, HEIR, "Stalled", "False")
    shop.cluster.kubectl("exec", f"{HEIR}-host-0", "--", "eventconsumer", "audit", "--deep")


def test_a_failover_that_lost_events_is_shown_with_both_ends_and_accepted(shop: Demo) -> None:
    plugin = Plugin(shop)
    before = drained(shop, BILLING)
    with emulator_admin(shop.cluster) as admin:
        assert admin.fail_over(BILLING, {"0": 20}, recreated=True) == 20
    publish(shop, BILLING, 100)
    stalled = wait_for(shop, BILLING, "Stalled", "True")
    assert stalled["reason"] == "HubDiverged", stalled
    assert "number 299, offset" in stalled["message"] and "number 329, " in stalled["message"], stalled
    until(lambda: drained(shop, BILLING) == before + 50, "the other partition goes on")
    assert plugin.run("hub", "accept", BILLING, "--yes").returncode == 2  # while hosts hold partitions
    assert plugin.run("suspend", BILLING, "--wait").returncode == 0
    accepted = plugin.json("hub", "accept", BILLING, "--yes")
    rows = {row["partition"]: row for row in accepted["partitions"]}
    assert (rows["0"]["common"], rows["0"]["start"], rows["0"]["gone"], rows["0"]["ahead"]) == (279, 280, 20, 50)
    assert (accepted["done"], rows["1"]["diverged"]) == (True, False)
    assert plugin.run("resume", BILLING, "--wait").returncode == 0
    until(lambda: drained(shop, BILLING) == before + 100, "all events that the hub has are in files")
    assert wait_for(shop, BILLING, "Ready", "True")
    report = json.loads(
        shop.cluster.kubectl("exec", f"{BILLING}-host-0", "--", "eventconsumer", "audit", "--deep", "--json")
    )
    assert (report["exitCode"], len(report["breaks"])) == (0, 2), report


def test_a_starting_position_is_changed_before_the_first_file(shop: Demo) -> None:
    plugin = Plugin(shop)
    create_hub(shop, LATER)
    publish(shop, LATER, 40)
    resource = resource_of(LATER, LATER, f"drained/{LATER}")
    shop.cluster.kubectl(
        "apply",
        "-f",
        "-",
        stdin=json.dumps(resource | {"spec": resource["spec"] | {"startingPosition": {"type": "Latest"}}}),
    )
    assert wait_for(shop, LATER, "Ready", "True")
    shop.cluster.kubectl(
        "patch", "eventconsumer", LATER, "--type=merge", "-p", '{"spec":{"startingPosition":{"type":"Earliest"}}}'
    )
    assert plugin.run("suspend", LATER, "--wait").returncode == 0
    made = plugin.json("hub", "reposition", LATER, "--yes")
    assert made["done"] and all(row["repositioned"] for row in made["partitions"]), made
    assert plugin.run("resume", LATER, "--wait").returncode == 0
    until(lambda: drained(shop, LATER) == 40, "the events from before the first start are in files")
    shop.cluster.kubectl("exec", f"{LATER}-host-0", "--", "eventconsumer", "audit", "--deep")
