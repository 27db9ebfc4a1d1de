"""EventConsumers of one namespace that read one hub in one consumer group: the store finds the older one."""

from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.readers import older_reader
from eventconsumer_operator.kube.store import Store
from tests.support.fakes.kubernetes import event_consumer

NAMED = {"fullyQualifiedNamespace": "shop.servicebus.windows.net", "name": "orders"}
REPORTED = {"namespace": "shop.servicebus.windows.net", "name": "orders"}


def secret(name: str) -> dict[str, Any]:
    return {"authentication": {"connectionStringSecretRef": {"name": name, "key": "k"}}}


def consumer(
    name: str,
    hub: dict[str, Any],
    *,
    at: int,
    namespace: str = "shop",
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """One that was created in second `at`; its status is of its present generation."""
    found = event_consumer(name, {"eventHub": hub, **spec}, namespace)
    found["metadata"] |= {
        "uid": name,
        "resourceVersion": str(at),
        "generation": 2,
        "creationTimestamp": f"2026-11-27T10:00:{at:02}Z",
    }
    return found | {"status": {"observedGeneration": 2, **(status or {})}}


def rival_of(newer: Manifest, *others: Manifest) -> str:
    store = Store(clusterwide=True)
    for each in (*others, newer):
        store.put(each)
    key = Key(newer["metadata"]["namespace"], newer["metadata"]["name"])
    return older_reader(newer, store.same_hub(key))


@pytest.mark.parametrize(
    ("older", "found"),
    [
        ({"hub": NAMED}, "old"),
        ({"hub": {"fullyQualifiedNamespace": "SHOP.servicebus.windows.net", "name": "Orders"}}, "old"),
        ({"hub": NAMED | {"consumerGroup": "$default"}}, "old"),
        ({"hub": NAMED | {"consumerGroup": "other"}}, ""),
        ({"hub": NAMED | {"name": "billing"}}, ""),
        ({"hub": secret("a"), "status": {"hub": REPORTED}}, "old"),  # its hosts say which hub the Secret names
        ({"hub": secret("a") | {"name": "orders"}, "status": {"hub": REPORTED}}, "old"),
        ({"hub": secret("a")}, ""),
        ({"hub": secret("a"), "status": {"hub": REPORTED, "observedGeneration": 1}}, ""),  # perhaps another Secret now
        ({"hub": NAMED, "namespace": "other"}, ""),  # a tenant must not stop the hosts of another one
        ({"hub": NAMED, "suspend": True}, ""),
        ({"hub": NAMED, "scaling": {"mode": "Fixed"}}, ""),
        ({"hub": NAMED, "scaling": {"mode": "Fixed", "replicas": 1}}, "old"),
        ({"hub": NAMED, "status": None, "scaling": {"mode": "Lag"}}, "old"),
        ({"hub": NAMED, "at": 30}, ""),  # this one is the newer one
        ({"hub": NAMED, "at": 20}, ""),  # of one second: by uid
    ],
)
def test_the_older_one_is_found(older: dict[str, Any], found: str) -> None:
    assert rival_of(consumer("newer", NAMED, at=20), consumer("old", **({"at": 10} | older))) == found


def test_one_key_of_one_secret_is_one_hub_before_any_host_reports() -> None:
    old = consumer("old", secret("a") | {"name": "orders"}, at=10)
    assert rival_of(consumer("newer", secret("a") | {"name": "ORDERS"}, at=20), old) == "old"
    assert rival_of(consumer("newer", secret("a") | {"name": "billing"}, at=20), old) == ""
    assert rival_of(consumer("newer", secret("b") | {"name": "orders"}, at=20), old) == ""


def test_the_oldest_of_several_is_named_and_one_that_is_gone_is_not() -> None:
    store = Store()
    newest = consumer("c", NAMED, at=30)
    for each in (newest, consumer("b", NAMED, at=20), consumer("a", NAMED, at=10)):
        store.put(each)
    key = Key("shop", "c")
    assert older_reader(newest, store.same_hub(key)) == "a"
    store.remove(consumer("a", NAMED, at=40))
    assert older_reader(newest, store.same_hub(key)) == "b"
    leaving = consumer("b", NAMED, at=41)
    leaving["metadata"] |= {"deletionTimestamp": "2026-11-27T11:00:00Z", "creationTimestamp": "2026-11-27T10:00:20Z"}
    store.put(leaving)
    assert older_reader(newest, store.same_hub(key)) == ""
