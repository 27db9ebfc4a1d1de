"""The user's own code on the real cluster: an image built from the processor image, allowed by the administrator."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from azure.storage.blob import ContainerClient

from eventconsumer_demo import run
from eventconsumer_demo.steps import DemoError
from eventhubs_emulator.admin_client import AdminClient
from tests.e2e.conftest import Demo, handler_image
from tests.e2e.test_bad_input import GOOD_NAMESPACE, GOOD_STORAGE, consumer
from tests.e2e.waiting import condition, until, wait_for

NAME = "shop"
ORDERS = 20
COUNT_BOOKINGS = (
    "import sqlite3; database = sqlite3.connect('/tmp/shop.sqlite'); "
    "print(database.execute('SELECT COUNT(*) FROM bookings').fetchone()[0])"
)


def with_handler(name: str, image_name: str) -> dict[str, Any]:
    """A consumer whose events the example's handler books before they are written to files."""
    resource = consumer(name)
    resource["spec"]["processing"] = {"handler": "shop:Shop", "image": image_name}
    return resource


def publish(demo: Demo) -> None:
    """Publish orders, with one invalid event in the middle."""
    with demo.cluster.port_forward(run.HUB_NAMESPACE, "service/eventhubs", 8081) as port:
        admin = AdminClient(f"http://127.0.0.1:{port}")
        admin.create_hub(NAME, partitions=1)
        for number in range(ORDERS):
            body = b"no order" if number == 7 else json.dumps({"order": f"A-{number}", "cents": 100}).encode()
            admin.put_event(NAME, "0", body)


@pytest.fixture(scope="module")
def shop(demo: Demo) -> Iterator[Demo]:
    """The consumer with the example's image."""
    publish(demo)
    demo.cluster.secret(f"{NAME}-hub", connectionString=GOOD_NAMESPACE)
    demo.cluster.secret(f"{NAME}-storage", connectionString=GOOD_STORAGE)
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(with_handler(NAME, handler_image())))
    yield demo
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")


def test_every_event_goes_to_the_handler_and_to_a_file(shop: Demo) -> None:
    def drained() -> bool:
        status = shop.cluster.get("eventconsumer", NAME).get("status", {})
        return bool(status.get("drained", {}).get("events") == ORDERS)

    until(drained, "every event is in a file")
    booked = shop.cluster.kubectl(
        "exec",
        f"{NAME}-host-0",
        "--",
        "python3",
        "-c",
        COUNT_BOOKINGS,
    )
    assert int(booked) == ORDERS - 1


def test_what_it_rejects_is_a_dead_letter_that_is_told(shop: Demo) -> None:
    wait_for(shop, NAME, "Ready", "True")
    assert "_deadletters/" in condition(shop, NAME, "Draining")["message"]
    with shop.cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
        connection = run.storage_connection_string(f"http://127.0.0.1:{port}/{run.ACCOUNT}")
        with ContainerClient.from_connection_string(connection, f"{NAME}-sink") as container:
            (letter,) = [blob.name for blob in container.list_blobs() if "/_deadletters/" in blob.name]
            content = json.loads(container.download_blob(letter).readall())
    assert letter.endswith(f"/seq={7:020d}.json")
    assert "not an order" in json.dumps(content)


def test_the_files_are_audited_in_the_pod(shop: Demo) -> None:
    printed = shop.cluster.kubectl(
        "exec", f"{NAME}-host-0", "--", "eventconsumer", "audit", "--deep", "--hub", "--json"
    )
    report = json.loads(printed)
    assert report["exitCode"] == 0, report


def test_an_image_that_is_not_allowed_is_refused_with_the_field(demo: Demo) -> None:
    stranger = json.dumps(with_handler("stranger", "docker.io/evil/image:1"))
    with pytest.raises(DemoError) as refused:
        demo.cluster.kubectl("apply", "-f", "-", stdin=stranger)
    assert "spec.processing.image: docker.io/evil/image:1 is not allowed" in refused.value.detail
