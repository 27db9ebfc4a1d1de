"""Consumers that share leases, files or an output are named before they meet in storage."""

from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.kinds import Manifest
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
        "leaseStore": {"container": "leases", **where, **lease_prefix, **leases},
        "sink": {"container": "drained", **where} | sink,
    } | ({"spark": {"output": {"path": output}}} if output else {})
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def found(one: Manifest, other: Manifest) -> list[tuple[Level, str]]:
    """What the first shares with the second."""
    here, there = ([*judge([places(a)], [places(b)], "here")] for a, b in ((one, other), (other, one)))
    assert [each.level for each in here] == [each.level for each in there], "it does not matter who is asked about"
    assert all(each.remedy for each in here if each.level is not Level.OK)
    return [(each.level, each.detail) for each in here]


def levels(one: Manifest, other: Manifest) -> list[Level]:
    """How bad what they share is."""
    return [level for level, _ in found(one, other)]


OK, BROKEN, WARNING, UNKNOWN = [Level.OK], [Level.BROKEN], [Level.WARNING], [Level.UNKNOWN]
BILLING: dict[str, Any] = {"name": "billing", "hub": "billing"}
SDK = {"layout": "AzureSdk"}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param({}, BILLING, OK, id="two hubs with the defaults"),
        pytest.param({}, {"name": "again", "group": "again"}, OK, id="two groups of one hub"),
        pytest.param({}, {"name": "again"}, BROKEN, id="one group of one hub"),
        pytest.param({}, {"name": "again", "hub": "Orders"}, BROKEN, id="one hub, spelt otherwise"),
        pytest.param({}, {"name": "again", "hubs": "b.servicebus.windows.net"}, OK, id="a hub of another namespace"),
        pytest.param({}, {"name": "again", "account": DEV}, OK, id="another account"),
        pytest.param({"lease_prefix": ""}, BILLING | {"lease_prefix": ""}, BROKEN, id="two hubs with one prefix"),
        pytest.param({"lease_prefix": "a/"}, BILLING | {"lease_prefix": "b/"}, OK, id="two prefixes"),
        pytest.param({}, BILLING | {"lease_prefix": ""}, OK, id="a default and a prefix"),
        pytest.param(
            {}, BILLING | {"lease_prefix": "shop.servicebus.windows.net/orders/"}, BROKEN, id="another's default"
        ),
        pytest.param(SDK, SDK | BILLING, OK, id="two hubs in the layout of the SDKs"),
        pytest.param(SDK, SDK | {"name": "again"}, BROKEN, id="one hub in the layout of the SDKs"),
        pytest.param({}, SDK | {"name": "again"}, OK, id="two layouts"),
        pytest.param(
            {"lease_prefix": "", "secret": "s"}, BILLING | {"lease_prefix": "", "secret": "s"}, BROKEN, id="one Secret"
        ),
        pytest.param(
            {"lease_prefix": "", "secret": "s"},
            BILLING | {"lease_prefix": "", "secret": "t"},
            WARNING,
            id="two Secrets",
        ),
        pytest.param(
            {"lease_prefix": "", "secret": "s"},
            BILLING | {"lease_prefix": "", "secret": "s", "namespace": "b"},
            WARNING,
            id="Secrets of one name in two namespaces",
        ),
        pytest.param(
            {"secret": "s", "hubs": None}, {"name": "again", "secret": "s", "hubs": None}, BROKEN, id="one hidden hub"
        ),
        pytest.param(
            {"secret": "s", "hubs": None}, {"name": "again", "secret": "t", "hubs": None}, UNKNOWN, id="two hidden hubs"
        ),
        pytest.param(
            {"secret": "s", "hubs": None},
            {"name": "again", "secret": "t", "lease_prefix": "x.servicebus.windows.net/orders/"},
            UNKNOWN,
            id="a hidden hub and a prefix like a default",
        ),
        pytest.param({"prefix": "p"}, BILLING | {"prefix": "p/"}, BROKEN, id="one sink prefix"),
        pytest.param({"prefix": "p"}, BILLING | {"prefix": "p", "container": "more"}, OK, id="two containers"),
        pytest.param({"prefix": "shop"}, BILLING, BROKEN, id="a default in another's prefix"),
        pytest.param({"prefix": "sho"}, BILLING, OK, id="a prefix that another begins with"),
        pytest.param({"prefix": "shop/billing"}, BILLING, BROKEN, id="another's default prefix"),
        pytest.param(
            {"output": "abfss://r@shop.dfs.core.windows.net/out"},
            BILLING | {"output": "abfss://r@shop.blob.core.windows.net/out/"},
            BROKEN,
            id="one output by two endpoints",
        ),
        pytest.param(
            {"output": "abfss://r@shop.dfs.core.windows.net/out"},
            BILLING | {"output": "abfss://r@shop.dfs.core.windows.net/out/b"},
            BROKEN,
            id="an output in another's",
        ),
        pytest.param(
            {"output": "abfss://r@shop.dfs.core.windows.net/out"},
            BILLING | {"output": "abfss://r@dev.dfs.core.windows.net/out"},
            OK,
            id="outputs in two accounts",
        ),
    ],
)
def test_what_two_consumers_share(one: dict[str, Any], other: dict[str, Any], expected: list[Level]) -> None:
    assert levels(consumer(**one), consumer(**other)) == expected


def test_a_finding_names_both_and_what_they_share() -> None:
    ((_, text),) = found(consumer(), consumer("again"))
    assert text == "shop/orders shares with shop/again the leases of consumer group $Default in container leases"
    ((_, text),) = found(consumer(prefix="p"), consumer(**BILLING, prefix="p/in"))
    assert text == "shop/orders shares with shop/billing files in container drained: p/in lies in p"
    one = consumer(secret="s", lease_prefix="")
    ((_, text),) = found(one, consumer(**BILLING, secret="t", lease_prefix=""))
    assert text.startswith("shop/orders may share (Secrets do not tell) with shop/billing the leases")


def put(cluster: Any, each: Manifest) -> None:
    """A consumer that is in the cluster already."""
    cluster.put(EVENT_CONSUMER, {"apiVersion": "eventconsumer.io/v1alpha1", "kind": "EventConsumer"} | each)


def test_doctor_compares_with_the_consumers_of_all_namespaces(shell: Shell) -> None:
    cluster = clinic()
    spec = cluster.objects["eventconsumers", "shop", "orders"]["spec"]
    seen = shell.run(cluster, "doctor", "orders", "-o", "json")
    (one,) = [each for each in seen.json["findings"] if each["check"] == "sharing"]
    assert one["detail"] == "shares no leases, files or output with the 0 other EventConsumers in all namespaces"
    put(cluster, {"metadata": {"name": "again", "namespace": "shop"}, "spec": spec})
    seen = shell.run(cluster, "doctor", "orders", "-o", "json")
    (one,) = [each for each in seen.json["findings"] if each["check"] == "sharing"]
    assert (seen.code, one["level"], one["consumer"]) == (2, "broken", "shop/orders")
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
    seen = shell.run(cluster, "init", "again", *IDENTITY, "--consumer-group", "again", "-f", str(target))
    assert (seen.code, target.exists()) == (0, True)
