"""Consumers that share leases, files or an output are named before they meet in storage."""

from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_cli.doctor.findings import Level
from eventconsumer_cli.doctor.sharing import judge, places
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER
from tests.unit.cli.running import Shell
from tests.unit.cli.test_doctor import clinic
from tests.unit.cli.test_init import IDENTITY, Inquired

SHOP, DEV = "https://shop.blob.core.windows.net", "https://dev.blob.core.windows.net"


def consumer(
    name: str = "orders",
    *,
    namespace: str = "shop",
    hub: str | None = "orders",
    hubs: str | None = "shop.servicebus.windows.net",
    secret: str = "",
    account: str = SHOP,
    output: str = "",
    reported: str = "",
    **leases: Any,
) -> Manifest:
    """A consumer that signs in with an identity, or with one Secret for everything."""
    sink: dict[str, Any] = {key: leases.pop(key) for key in ("container", "prefix") if key in leases}
    group = leases.pop("group", "$Default")
    lease_prefix = {"prefix": leases.pop("lease_prefix")} if "lease_prefix" in leases else {}
    identity = {"workloadIdentity": {"clientId": "0000"}}
    authentication = {"connectionStringSecretRef": {"name": secret, "key": "all"}} if secret else identity
    where = {"authentication": authentication} | ({} if secret else {"storageAccountUrl": account})
    named = {"name": hub, "fullyQualifiedNamespace": hubs, "consumerGroup": group, "authentication": authentication}
    spec = {
        "eventHub": {key: value for key, value in named.items() if value},
        "checkpointStore": {"container": "leases", **where, **lease_prefix, **leases},
        "sink": {"container": "drained", **where} | sink,
    } | ({"spark": {"output": {"path": output}}} if output else {})
    metadata = {"name": name, "namespace": namespace, "generation": 1}
    told = {"hub": {"namespace": "shop.servicebus.windows.net", "name": reported}} if reported else {}
    return {"metadata": metadata, "spec": spec, "status": {"observedGeneration": 1, **told}}


def found(one: Manifest, other: Manifest) -> list[tuple[Level, str]]:
    """What the first shares with the second."""
    here, there = ([*judge([places(a)], [places(b)], "here")] for a, b in ((one, other), (other, one)))
    assert [each.level for each in here] == [each.level for each in there], "it does not matter who is asked about"
    assert all(each.remedy for each in here if each.level is not Level.OK)
    return [(each.level, each.detail) for each in here]


OK, BROKEN, WARNING, UNKNOWN = [Level.OK], [Level.BROKEN], [Level.WARNING], [Level.UNKNOWN]
BILLING: dict[str, Any] = {"name": "billing", "hub": "billing"}
SDK = {"layout": "AzureSdk"}


ONE_PREFIX: dict[str, Any] = {"lease_prefix": ""}
DEFAULT_PREFIX = "servicebus.windows.net/orders/"
HIDDEN: dict[str, Any] = {"secret": "s", "hubs": None}
AGAIN: dict[str, Any] = {"name": "again"}
OUT = "abfss://r@shop.dfs.core.windows.net/out"
SHARED: dict[str, tuple[dict[str, Any], dict[str, Any], list[Level]]] = {
    "two hubs with the defaults": ({}, BILLING, OK),
    "two groups of one hub": ({}, AGAIN | {"group": "again"}, OK),
    "one group of one hub": ({}, AGAIN, BROKEN),
    "one group of one hub, in another case": ({}, AGAIN | {"group": "$default"}, BROKEN),
    "one hub, spelt otherwise": ({}, AGAIN | {"hub": "Orders"}, BROKEN),
    "a hub of another namespace": ({}, AGAIN | {"hubs": "b.servicebus.windows.net"}, OK),
    "another account": ({}, AGAIN | {"account": DEV}, BROKEN),  # one hub and consumer group, two checkpoint stores
    "another account and group": ({}, AGAIN | {"account": DEV, "group": "again"}, OK),
    "another account, spelt otherwise": ({}, AGAIN | {"account": DEV, "hub": "ORDERS", "group": "$default"}, BROKEN),
    "another account in another namespace": ({}, AGAIN | {"account": DEV, "namespace": "b"}, BROKEN),
    "another account and a hidden hub": ({}, AGAIN | HIDDEN | {"lease_prefix": "b/"}, UNKNOWN),
    "another account and a hub that hosts reported": (
        {},
        AGAIN | HIDDEN | {"lease_prefix": "b/", "hub": None, "reported": "Orders"},
        BROKEN,
    ),
    "another account and another hub that hosts reported": (
        {},
        AGAIN | HIDDEN | {"lease_prefix": "b/", "hub": None, "reported": "billing"},
        OK,
    ),
    "two hubs with one prefix": (ONE_PREFIX, BILLING | ONE_PREFIX, BROKEN),
    "two prefixes": ({"lease_prefix": "a/"}, BILLING | {"lease_prefix": "b/"}, OK),
    "a default and a prefix": ({}, BILLING | ONE_PREFIX, OK),
    "another's default": ({}, BILLING | {"lease_prefix": f"shop.{DEFAULT_PREFIX}"}, BROKEN),
    "two hubs in the layout of the SDKs": (SDK, SDK | BILLING, OK),
    "one hub in the layout of the SDKs": (SDK, SDK | AGAIN, BROKEN),
    "two layouts": ({}, SDK | AGAIN, BROKEN),
    "one Secret": (ONE_PREFIX | {"secret": "s"}, BILLING | ONE_PREFIX | {"secret": "s"}, BROKEN),
    "two Secrets": (ONE_PREFIX | {"secret": "s"}, BILLING | ONE_PREFIX | {"secret": "t"}, WARNING),
    "Secrets of one name in two namespaces": (
        ONE_PREFIX | {"secret": "s"},
        BILLING | ONE_PREFIX | {"secret": "s", "namespace": "b"},
        WARNING,
    ),
    "one hidden hub": (HIDDEN, AGAIN | HIDDEN, BROKEN),
    "two hidden hubs": (HIDDEN, AGAIN | HIDDEN | {"secret": "t"}, UNKNOWN),
    "a hidden hub and a prefix like a default": (
        HIDDEN,
        AGAIN | {"secret": "t", "lease_prefix": f"x.{DEFAULT_PREFIX}"},
        UNKNOWN,
    ),
    "one sink prefix": ({"prefix": "p"}, BILLING | {"prefix": "p/"}, BROKEN),
    "two containers": ({"prefix": "p"}, BILLING | {"prefix": "p", "container": "more"}, OK),
    "a default in another's prefix": ({"prefix": "shop"}, BILLING, BROKEN),
    "a prefix that another begins with": ({"prefix": "sho"}, BILLING, OK),
    "another's default prefix": ({"prefix": "shop/billing"}, BILLING, BROKEN),
    "one output by two endpoints": (
        {"output": OUT},
        BILLING | {"output": "abfss://r@shop.blob.core.windows.net/out/"},
        BROKEN,
    ),
    "an output in another's": ({"output": OUT}, BILLING | {"output": f"{OUT}/b"}, BROKEN),
    "outputs in two accounts": ({"output": OUT}, BILLING | {"output": OUT.replace("shop", "dev")}, OK),
}


@pytest.mark.parametrize(("one", "other", "expected"), SHARED.values(), ids=SHARED)
def test_two_consumers_share_storage_or_not(one: dict[str, Any], other: dict[str, Any], expected: list[Level]) -> None:
    assert [level for level, _ in found(consumer(**one), consumer(**other))] == expected


def test_a_finding_names_both_consumers_and_the_shared_place() -> None:
    ((_, text),) = found(consumer(), consumer("again"))
    assert text == "shop/orders shares with shop/again the leases of consumer group $Default in container leases"
    ((_, text),) = found(consumer(prefix="p"), consumer(**BILLING, prefix="p/in"))
    assert text == "shop/orders shares with shop/billing files in container drained: p/in is inside p"
    one = consumer(secret="s", lease_prefix="")
    ((_, text),) = found(one, consumer(**BILLING, secret="t", lease_prefix=""))
    assert text.startswith("shop/orders may share (values in Secrets are unknown) with shop/billing the leases")


def put(cluster: Any, each: Manifest) -> None:
    """A consumer that is in the cluster already."""
    cluster.put(EVENT_CONSUMER, {"apiVersion": "eventconsumer.io/v1alpha1", "kind": "EventConsumer"} | each)


def test_doctor_compares_with_the_consumers_of_all_namespaces(shell: Shell) -> None:
    cluster = clinic()
    spec = cluster.objects["eventconsumers", "shop", "orders"]["spec"]

    def sharing() -> tuple[int, dict[str, str]]:
        seen = shell.run(cluster, "doctor", "orders", "-o", "json")
        (one,) = [each for each in seen.json["findings"] if each["check"] == "sharing"]
        return seen.code, one

    alone = "shares no consumer group, leases, files or output with the 0 other EventConsumers in all namespaces"
    assert sharing()[1]["detail"] == alone
    put(cluster, {"metadata": {"name": "again", "namespace": "shop"}, "spec": spec})
    code, one = sharing()
    assert (code, one["level"], one["consumer"]) == (2, "broken", "shop/orders")
    assert "shares with shop/again the leases" in one["detail"]
    cluster.forbidden = {"eventconsumers"}
    assert shell.run(cluster, "doctor").code == 0


def test_init_names_a_consumer_that_the_new_one_would_meet(shell: Shell, tmp_path: Path) -> None:
    cluster = Inquired()
    put(cluster, consumer(hubs="shop.servicebus.windows.net"))
    target = tmp_path / "again.yaml"
    seen = shell.run(cluster, "init", "again", *IDENTITY, "-f", str(target))
    assert (seen.code, target.exists()) == (2, False)
    assert "shop/again shares with shop/orders the leases of consumer group $Default" in seen.err
    put(cluster, consumer(account=DEV))
    seen = shell.run(cluster, "init", "again", *IDENTITY, "-f", str(target))
    assert (seen.code, target.exists()) == (2, False)
    assert "shop/again shares with shop/orders consumer group $Default of one Event Hub" in seen.err
    seen = shell.run(cluster, "init", "again", *IDENTITY, "--consumer-group", "again", "-f", str(target))
    assert (seen.code, target.exists()) == (0, True)
