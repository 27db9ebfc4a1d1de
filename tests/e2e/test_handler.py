"""The user's own code on the real cluster: an image built from the processor image, allowed by the administrator.

It gets a variable from a ConfigMap and a file from a Secret.
"""

import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest
from azure.storage.blob import ContainerClient

from eventconsumer_demo import run
from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import Demo, handler_image
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.waiting import condition, until, wait_for

NAME = "shop"
SETTINGS, KEY = f"{NAME}-settings", f"{NAME}-key"
DATABASE = "/tmp/bookings.sqlite"  # not the default of the example, so that only the ConfigMap can name it
SECRET_KEY = "of the shop alone"
ORDERS = 20
BAD = 7
READ_BOOKINGS = (
    f"import json, sqlite3; database = sqlite3.connect('{DATABASE}'); "
    "print(json.dumps([reference for reference, in database.execute('SELECT reference FROM bookings')]))"
)


def with_handler(name: str, image_name: str) -> dict[str, Any]:
    """A consumer whose events the example's handler books before they are written to files."""
    resource = consumer(name)
    resource["spec"]["processing"] = {"handler": "shop:Shop", "image": image_name}
    return resource


def with_inputs(resource: dict[str, Any]) -> dict[str, Any]:
    """Its handler gets the path of its database from a ConfigMap, and the key of references from a Secret."""
    resource["spec"]["processing"] |= {
        "env": [
            {"name": "APP_DATABASE", "valueFrom": {"configMapKeyRef": {"name": SETTINGS, "key": "database"}}},
            {"name": "APP_KEY_FILE", "value": "/secrets/shop/key"},
        ],
        "envFrom": [{"prefix": "APP_ALSO_", "configMapRef": {"name": SETTINGS}}],
        "volumes": [{"mountPath": "/secrets/shop", "secret": {"secretName": KEY}}],
        "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "database"}}}], "ports": [{"port": 5432}]}],
    }
    return resource


def reference(number: int) -> str:
    """What the handler stores instead of the reference of an order."""
    return hmac.digest(SECRET_KEY.encode(), f"A-{number}".encode(), "sha256").hex()


def publish(demo: Demo) -> None:
    """Publish orders, with one invalid event in the middle."""
    with emulator_admin(demo.cluster) as admin:
        admin.create_hub(NAME, partitions=1)
        for number in range(ORDERS):
            body = b"no order" if number == BAD else json.dumps({"order": f"A-{number}", "cents": 100}).encode()
            admin.put_event(NAME, "0", body)


@pytest.fixture(scope="module")
def shop(demo: Demo) -> Iterator[Demo]:
    """The consumer with the example's image. Its ConfigMap does not exist yet."""
    publish(demo)
    create_secrets(demo.cluster, NAME)
    demo.cluster.secret(KEY, key=SECRET_KEY)
    resource = with_inputs(with_handler(NAME, handler_image()))
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(resource))
    yield demo
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")
    demo.cluster.kubectl("delete", "configmap", SETTINGS, "--ignore-not-found")
    demo.cluster.kubectl("delete", "secret", KEY, "--ignore-not-found")


@pytest.fixture
def running(shop: Demo) -> Demo:
    """The same with its ConfigMap."""
    shop.cluster.config_map(SETTINGS, {"database": DATABASE})
    return shop


def test_a_host_waits_for_a_missing_config_map_and_says_so(shop: Demo) -> None:
    stalled = wait_for(shop, NAME, "Stalled", "True")
    assert stalled["reason"] == "HostsFailing"
    assert f'"{SETTINGS}" not found: create it, or correct env and envFrom in the spec' in stalled["message"]
    shop.cluster.config_map(SETTINGS, {"database": DATABASE})
    wait_for(shop, NAME, "HostsAvailable", "True")


def test_every_event_goes_to_the_handler_and_to_a_file(running: Demo) -> None:
    def drained() -> bool:
        status = running.cluster.get("eventconsumer", NAME).get("status", {})
        return bool(status.get("drained", {}).get("events") == ORDERS)

    until(drained, "every event is in a file")
    booked = running.cluster.kubectl(
        "exec",
        f"{NAME}-host-0",
        "--",
        "python3",
        "-c",
        READ_BOOKINGS,
    )
    assert sorted(json.loads(booked)) == sorted(reference(number) for number in range(ORDERS) if number != BAD)


def test_rejected_events_are_reported_as_dead_letters(running: Demo) -> None:
    wait_for(running, NAME, "Ready", "True")
    assert "_deadletters/" in condition(running, NAME, "Draining")["message"]
    with running.cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
        connection = run.storage_connection_string(f"http://127.0.0.1:{port}/{run.ACCOUNT}")
        with ContainerClient.from_connection_string(connection, f"{NAME}-sink") as container:
            (letter,) = [blob.name for blob in container.list_blobs() if "/_deadletters/" in blob.name]
            content = json.loads(container.download_blob(letter).readall())
    assert letter.endswith(f"/seq={BAD:020d}.json")
    assert "not an order" in json.dumps(content)


def test_the_files_are_audited_in_the_pod(running: Demo) -> None:
    printed = running.cluster.kubectl(
        "exec", f"{NAME}-host-0", "--", "eventconsumer", "audit", "--deep", "--hub", "--json"
    )
    report = json.loads(printed)
    assert report["exitCode"] == 0, report


def test_an_image_that_is_not_allowed_is_refused_with_the_field(demo: Demo) -> None:
    stranger = json.dumps(with_handler("stranger", "docker.io/evil/image:1"))
    with pytest.raises(DemoError) as refused:
        demo.cluster.kubectl("apply", "-f", "-", stdin=stranger)
    assert "spec.processing.image: docker.io/evil/image:1 is not allowed" in refused.value.detail
