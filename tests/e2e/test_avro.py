"""Avro bodies on the real cluster: a registry in a pod, decoded rows in the table, an unknown schema in the quarantine.

The body of examples/avro.yaml is used with the protocol of Confluent, because the cluster has no identities of Azure.
The demo allows insecure endpoints, so its administrator need not name the registry in `schemaRegistries`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventconsumer_demo import run
from tests.e2e.conftest import ROOT, Demo
from tests.e2e.consumers import emulator_admin, server
from tests.e2e.sparkshop import PARTITIONS, WAVE, SparkShop, parquet_rows
from tests.e2e.test_plugin import Plugin
from tests.support import registry
from tests.support.avrobodies import encoded, framed

pytestmark = pytest.mark.long

NAME = "avro-bodies"
REGISTRY = f"{NAME}-registry"
PORT = 8080
OLD = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
NEW = OLD | {"fields": [*OLD["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
SCHEMAS = {"1": json.dumps(OLD), "2": json.dumps(NEW)}
UNKNOWN = 99  # an id that the registry does not have
UNKNOWN_AT = 7  # its place in each wave


def program(host: str = "", port: int = PORT) -> str:
    """The program of the registry: the stand-in of all tests, with two schemas."""
    served = f"with StandInRegistry(host={host!r}, port={port}, schemas={SCHEMAS!r}):\n    threading.Event().wait()\n"
    return f"{Path(registry.__file__).read_text()}\n\n{served}"


def body(namespace: str) -> dict[str, Any]:
    """`spec.spark.output.body` of the example, with the registry of this test."""
    example = yaml.safe_load((ROOT / "examples/avro.yaml").read_text())
    found: dict[str, Any] = example["spec"]["spark"]["output"]["body"]
    url = f"http://{REGISTRY}.{namespace}.svc.cluster.local:{PORT}"
    return found | {"registry": {"type": "Confluent", "url": url}}


def order(number: int) -> dict[str, Any]:
    """The decoded body of an event, as a reader of the table sees it."""
    return {"id": number, "note": f"note {number}" if has_note(number) else None}


def has_note(number: int) -> bool:
    """Whether an event has the newer schema: every second one of each partition."""
    return number // PARTITIONS % 2 == 1


def content(number: int) -> bytes:
    """The body of an event as its publisher sends it."""
    if number % WAVE == UNKNOWN_AT:
        return framed(UNKNOWN, encoded(OLD, {"id": number}))
    return framed(2, encoded(NEW, order(number))) if has_note(number) else framed(1, encoded(OLD, {"id": number}))


class AvroShop(SparkShop):
    """A consumer whose bodies are Avro; events of an unknown schema are not in its output."""

    def publish(self) -> None:
        """Publish a wave of events, with consecutive numbers."""
        with emulator_admin(self.cluster) as admin:
            for _ in range(WAVE):
                admin.put_event(self.name, str(self.sent % PARTITIONS), content(self.sent))
                if self.sent % WAVE == UNKNOWN_AT:
                    self.lost.add(self.sent)
                self.sent += 1

    def rows(self, suffix: str = "") -> list[int]:
        """The numbers of all events in the output, sorted."""
        return sorted(found["id"] for found in self.bodies(suffix))

    def quarantine(self) -> dict[bytes, str]:
        """Bodies in the quarantine, with their causes."""
        with self.cluster.port_forward(run.BLOB_NAMESPACE, run.BLOB_SERVICE, run.BLOB_PORT) as port:
            connection = run.storage_connection_string(f"http://127.0.0.1:{port}/{run.ACCOUNT}")
            rows = parquet_rows(connection, f"{self.name}_quarantine", "body", "cause")
        assert len(rows) == len({row["body"] for row in rows}), "none is kept twice"
        return {row["body"]: row["cause"] for row in rows}

    def doctor(self) -> dict[str, str]:
        """What `doctor` finds about the registry."""
        seen = Plugin(self.demo).run("doctor", self.name, "-o", "json")
        (found,) = (each for each in json.loads(seen.stdout)["findings"] if each["check"] == "schema-registry")
        return dict(found)


@pytest.fixture(scope="module")
def shop(demo: Demo) -> Iterator[AvroShop]:
    """The registry and the consumer; removed at the end."""
    start_registry(demo)
    retry = {"attempts": 100, "backoffSeconds": 1, "maxBackoffSeconds": 5}
    yield AvroShop(demo, NAME, "jobs", retry=retry, output={"body": body(demo.cluster.namespace)})
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")
    demo.cluster.kubectl("delete", f"pod/{REGISTRY}", f"service/{REGISTRY}", "--ignore-not-found")


def start_registry(demo: Demo) -> None:
    """Start the pod of the registry, and wait until it is ready."""
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(server(REGISTRY, program(), PORT)))
    demo.cluster.kubectl("wait", f"pod/{REGISTRY}", "--for=condition=Ready", "--timeout=100s")


def test_bodies_are_columns_and_an_unknown_schema_is_in_the_quarantine(shop: AvroShop) -> None:
    shop.publish()
    shop.until_processed()
    found = sorted(shop.bodies(), key=lambda each: each["id"])
    assert found == [order(number) for number in range(WAVE) if number != UNKNOWN_AT]
    assert shop.quarantine() == {content(UNKNOWN_AT): f"schema {UNKNOWN} is not in the registry"}
    told = shop.until(lambda: shop.healthy()["reason"] == "SparkQuarantined" and shop.healthy(), "it is told")
    assert f"schema {UNKNOWN} is not in the registry: sequence number" in told["message"], told
    assert shop.doctor()["level"] == "ok"


def test_a_registry_that_is_away_delays_a_batch_and_no_event_is_lost_or_written_twice(shop: AvroShop) -> None:
    shop.cluster.kubectl("delete", "pod", REGISTRY, "--grace-period=0", "--force")
    shop.publish()
    shop.until(lambda: "no answer" in shop.healthy().get("message", ""), "the condition tells of it")
    told = shop.healthy()
    assert told["status"] == "False" and "spec.spark.output.body.registry.url" in told["message"], told
    seen = shop.doctor()
    assert seen["level"] == "broken" and "no answer" in seen["detail"] and seen["remedy"], seen
    assert shop.rows() == [number for number in range(WAVE) if number != UNKNOWN_AT], "nothing of it is written"
    start_registry(shop.demo)
    shop.until_processed()
    assert shop.quarantine().keys() == {content(UNKNOWN_AT), content(WAVE + UNKNOWN_AT)}
    shop.until(lambda: shop.healthy()["status"] == "True", "it is healthy again")
