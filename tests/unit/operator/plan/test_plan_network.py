"""The network policy and the disruption budget of host pods, and the endpoints that a spec may name."""

from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.kube.manifest import NETWORK_POLICY, difference, name_of, trimmed
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.plan.disruption import disruption_budget
from eventconsumer_operator.plan.network import network_policies, unwanted_policies
from eventconsumer_operator.resource.names import child_labels
from eventconsumer_operator.resource.spec import parse_spec
from tests.attackers.reach import Target, lets_out, selects
from tests.unit.operator.worlds import HANDLER, IDENTITY, KEY, SETTINGS, SPARK, SPEC, UID, consumer, observed, spec_with

CLOSED = replace(
    SETTINGS, network_policies=True, operator_namespace="operators", metrics_namespaces=("monitoring", "other")
)
OPERATOR = {"app.kubernetes.io/name": "eventconsumer", "app.kubernetes.io/component": "operator", "x": "y"}


def policy(settings: Any = CLOSED) -> Any:
    *_, made = network_policies(consumer(), parse_spec(SPEC), settings)
    return made["spec"]


def enters(namespace: str, pod: dict[str, str], port: int = labels.HOST_PORT) -> bool:
    """What the rules of ingress of hosts say about a connection, by the definition of NetworkPolicy."""
    return any(
        {"port": port, "protocol": "TCP"} in rule["ports"]
        and selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": namespace})
        and selects(peer.get("podSelector", {}), pod)
        for rule in policy()["ingress"]
        for peer in rule["from"]
    )


def leaves(port: int, protocol: str = "TCP", settings: Any = CLOSED, spec: Any = SPEC) -> bool:
    """Whether hosts may connect to this port of a machine."""
    made = network_policies(consumer(), parse_spec(spec), settings)
    reached = [
        lets_out(made, child_labels(KEY, labels.COMPONENT_HOST), Target(address, port, protocol))
        for address in ("10.1.2.3", "2603:1030::1")
    ]
    assert len(set(reached)) == 1
    return reached[0]


def test_the_operator_and_the_named_namespaces_may_ask_hosts_and_nobody_else() -> None:
    assert enters("operators", OPERATOR)
    assert enters("monitoring", {"any": "pod"})
    assert enters("other", {})
    assert not enters("operators", {"app.kubernetes.io/component": "operator"})
    assert not enters("operators", {"any": "pod"})
    assert not enters("shop", OPERATOR)  # somebody's pod with the operator's labels elsewhere
    assert not enters("operators", OPERATOR, port=9090)


def test_hosts_reach_names_and_tls_ports_and_nothing_else() -> None:
    plain = (80, 5672, 6443, 10250, 2379, 10000)
    assert leaves(53, "UDP") and leaves(53)
    assert leaves(443) and leaves(5671)
    assert not any(leaves(port) for port in plain)
    assert not leaves(443, "UDP")
    emulators = replace(CLOSED, allow_insecure_endpoints=True)  # emulators listen on any port
    assert all(leaves(port, settings=emulators) for port in plain)


def test_hosts_reach_the_port_of_their_proxy() -> None:
    spec = spec_with("proxy", {"url": "http://proxy.azure.example:3128"})
    assert leaves(3128, spec=spec)
    assert not leaves(3129, spec=spec)


# --- destinations of a handler ---------------------------------------------------------------------------------------

OPEN = replace(CLOSED, egress_cidrs=("10.1.0.0/16", "fd00:1::/64"), egress_namespaces=("data",))
EVERYWHERE = replace(CLOSED, egress_cidrs=("0.0.0.0/0", "::/0"))


def with_egress(*peers: dict[str, Any], port: int = 5432) -> dict[str, Any]:
    return SPEC | {"processing": HANDLER | {"egress": [{"to": list(peers), "ports": [{"port": port}]}]}}


def block(cidr: str, *left_out: str) -> dict[str, Any]:
    return {"ipBlock": {"cidr": cidr, "except": list(left_out)}}


def planned_egress(spec: dict[str, Any], settings: Any) -> Any:
    """The egress of the planned policy of hosts, after that for Azure."""
    (made,) = (
        each
        for each in make_plan(observed(spec), settings).applied
        if (each["kind"], name_of(each)) == ("NetworkPolicy", "orders-host")
    )
    return made["spec"]["egress"][2:]


def test_a_handler_reaches_what_its_rules_name_on_their_ports_only() -> None:
    peers = (
        block("10.1.2.0/24", "10.1.2.128/25"),
        {"podSelector": {"matchLabels": {"app": "redis"}}},
        {"podSelector": {}, "namespaces": ["data", "shop"]},
    )
    (rule,) = planned_egress(with_egress(*peers), OPEN)
    inside = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["data", "shop"]}
    assert rule == {
        "to": [
            {"ipBlock": {"cidr": "10.1.2.0/24", "except": ["10.1.2.128/25"]}},
            {"podSelector": {"matchLabels": {"app": "redis"}}},  # without a namespaceSelector: of its own namespace
            {"podSelector": {}, "namespaceSelector": {"matchExpressions": [inside]}},
        ],
        "ports": [{"port": 5432, "protocol": "TCP"}],
    }
    assert planned_egress(SPEC, OPEN) == []


def test_egress_restarts_no_host() -> None:
    specs = (SPEC | {"processing": HANDLER}, with_egress(block("10.1.0.0/16")))
    plain, opened = (make_plan(observed(spec), OPEN) for spec in specs)
    assert plain.config == opened.config
    assert [each for each in plain.applied if each["kind"] != "NetworkPolicy"] == [
        each for each in opened.applied if each["kind"] != "NetworkPolicy"
    ]


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        (
            block("10.2.0.0/16"),
            "10.2.0.0/16 is not within one of the allowed ranges (10.1.0.0/16, fd00:1::/64): correct",
        ),
        (block("10.0.0.0/8"), "administrator to extend egressCidrs"),
        (block("fd00::/8"), "administrator to extend egressCidrs"),
        (block("10.1.0.0/16", "10.2.0.0/24"), "10.2.0.0/24 is not within the cidr that it is an exception of: correct"),
        (
            {"podSelector": {}, "namespaces": ["data", "kube-system"]},
            "kube-system is not one of the allowed namespaces (data): correct it",
        ),
    ],
)
def test_a_destination_that_nobody_allowed_is_refused(peer: dict[str, Any], message: str) -> None:
    for settings in (OPEN, CLOSED):
        with pytest.raises(SpecError) as caught:
            make_plan(observed(with_egress(peer)), settings)
        assert caught.value.field == "spec.processing.egress"
        if settings is OPEN:
            assert message in str(caught.value)
        else:
            assert "(there is none): correct it, or ask the operator's administrator" in str(caught.value)


@pytest.mark.parametrize(
    "cidr", ["169.254.169.254/32", "169.254.0.0/16", "168.63.129.16/32", "fe80::/64", "fd00:ec2::254/128"]
)
def test_services_of_the_node_are_never_allowed(cidr: str) -> None:
    with pytest.raises(SpecError, match="is never allowed"):
        make_plan(observed(with_egress(block(cidr))), EVERYWHERE)


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 32), st.sampled_from(["169.254.169.254", "168.63.129.16", "169.254.0.1"])
)
def test_no_range_reaches_services_of_the_node(number: int, length: int, service: str) -> None:
    address = ip_address(service)
    near = ip_address(int(address) ^ (number & ((1 << (32 - length)) - 1)))  # else few ranges contain it
    network = ip_network(f"{near}/{length}", strict=False)
    try:
        (rule,) = planned_egress(with_egress(block(str(network))), EVERYWHERE)
    except SpecError:
        return
    (found,) = (peer["ipBlock"] for peer in rule["to"])
    left_out = [ip_network(each) for each in found.get("except", [])]
    assert all(each.subnet_of(network) for each in left_out), "Kubernetes refuses others"
    assert address not in network or any(address in each for each in left_out)


def test_it_covers_every_pod_of_the_host_image_and_no_other() -> None:
    selector = policy()["podSelector"]
    for component in (labels.COMPONENT_HOST, labels.COMPONENT_PROBE, labels.COMPONENT_REPLAY, labels.COMPONENT_TOOL):
        assert selects(selector, child_labels(KEY, component))
    assert not selects(selector, child_labels(KEY, labels.COMPONENT_SPARK))
    assert not selects(selector, child_labels(KEY._replace(name="other"), labels.COMPONENT_HOST))
    assert policy()["policyTypes"] == ["Ingress", "Egress"]


def live_policy(uid: str, name: str = "orders-host") -> Manifest:
    owner = {"kind": "EventConsumer", "name": "orders", "uid": uid, "controller": True}
    metadata = {"name": name, "namespace": "shop", "uid": "p", "ownerReferences": [owner]}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata}


@pytest.mark.parametrize(
    ("name", "uid", "spec", "settings", "gone"),
    [
        ("orders-host", UID, SPEC, SETTINGS, True),
        ("orders-host", UID, SPEC, CLOSED, False),
        ("orders-host", "other", SPEC, SETTINGS, False),
        ("orders-spark", UID, SPEC | SPARK, CLOSED, False),
        ("orders-spark", UID, SPEC, CLOSED, True),
        ("orders-spark", UID, SPEC | SPARK, SETTINGS, True),
        ("orders-host-ipv6", UID, SPEC, SETTINGS, True),
        ("orders-host-ipv6", UID, SPEC, CLOSED, False),
        ("orders-host-ipv6", UID, SPEC, replace(CLOSED, allow_insecure_endpoints=True), True),
        ("orders-spark-ipv6", UID, SPEC | SPARK, CLOSED, False),
        ("orders-spark-ipv6", UID, SPEC, CLOSED, True),
    ],
)
def test_a_policy_that_is_switched_off_goes_and_one_of_somebody_else_stays(
    name: str, uid: str, spec: Any, settings: Any, gone: bool
) -> None:
    assert network_policies(consumer(), parse_spec(SPEC), SETTINGS) == ()
    live = live_policy(uid, name)
    world = replace(observed(spec), children={(NETWORK_POLICY, name): live})
    assert unwanted_policies(world, parse_spec(spec), settings) == ((live,) if gone else ())
    assert (live in make_plan(world, settings).deleted) == gone


SPARK_PODS = [labels.COMPONENT_SPARK, labels.COMPONENT_REPROCESS]


def test_sparks_pods_hear_each_other_and_nobody_else() -> None:
    found = {name_of(each): each for each in network_policies(consumer(), parse_spec(SPEC | SPARK), CLOSED)}
    # The policies that only allow more come first, so that an update cuts no connection.
    assert list(found) == ["orders-host-ipv6", "orders-host", "orders-spark-ipv6", "orders-spark"]
    spec = found["orders-spark"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    (rule,) = spec["ingress"]
    for selector in (spec["podSelector"], *(peer["podSelector"] for peer in rule["from"])):
        assert all(selects(selector, child_labels(KEY, component) | {"spark-role": "x"}) for component in SPARK_PODS)
        assert not selects(selector, child_labels(KEY, labels.COMPONENT_HOST))
        assert not selects(selector, child_labels(KEY._replace(name="other"), labels.COMPONENT_SPARK))
    assert all(peer.keys() == {"podSelector"} for peer in rule["from"])  # of the resource's own namespace
    assert "ports" not in rule


def test_the_content_of_each_policy_is_in_the_store_to_be_compared() -> None:
    """Else each reconcile would write it again."""
    for made in network_policies(consumer(), parse_spec(SPEC | SPARK), CLOSED):
        assert difference(made["spec"], trimmed(made).get("spec")) is None


def test_one_host_at_a_time_may_be_evicted_and_an_unready_one_always() -> None:
    spec = disruption_budget(observed())["spec"]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert selects(spec["selector"], child_labels(KEY, labels.COMPONENT_HOST))
    assert not selects(spec["selector"], child_labels(KEY, labels.COMPONENT_PROBE))
    kinds = [manifest["kind"] for manifest in make_plan(observed(), CLOSED).applied]
    assert "PodDisruptionBudget" in kinds
    assert kinds.index("NetworkPolicy") < kinds.index("StatefulSet")  # no pod is up before its policy


# --- endpoints -------------------------------------------------------------------------------------------------------

STORAGE_URL, LEASE_URL = "sink.storageAccountUrl", "checkpointStore.storageAccountUrl"
NAMESPACE, OUTPUT, PROXY = "eventHub.fullyQualifiedNamespace", "spark.output.path", "proxy.url"


@pytest.mark.parametrize(
    ("path", "value", "value_of_the_chart"),
    [
        (STORAGE_URL, "https://collector.example", "storageSuffixes"),
        (STORAGE_URL, "https://relay.servicebus.windows.net", "storageSuffixes"),
        (STORAGE_URL, "https://relay.servicebus.windows.net/shop", "storageSuffixes"),
        (STORAGE_URL, "https://shop.blob.core.windows.net/other", "storageSuffixes"),
        (STORAGE_URL, "https://shop.web.core.windows.net", "storageSuffixes"),
        (LEASE_URL, "https://relay.servicebus.windows.net", "storageSuffixes"),
        (NAMESPACE, "hub.collector.example", "hubSuffixes"),
        (NAMESPACE, "shop.blob.core.windows.net", "hubSuffixes"),
        (OUTPUT, "abfss://out@collector.example/x", "storageSuffixes"),
        (OUTPUT, "abfss://out@shop.servicebus.windows.net/x", "storageSuffixes"),
        (PROXY, "http://proxy.collector.example:3128", "proxySuffixes"),
        (PROXY, "http://relay.servicebus.windows.net:80", "proxySuffixes"),
    ],
)
def test_a_domain_that_nobody_allowed_is_refused(path: str, value: str, value_of_the_chart: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_plan(observed(spec_with(path, value, SPEC | SPARK)), SETTINGS)
    assert (caught.value.field, caught.value.reason) == (f"spec.{path}", "EndpointNotAllowed")
    assert f"administrator to extend {value_of_the_chart}" in str(caught.value)


@pytest.mark.parametrize("port", [0, 65_536, 99_999])
@pytest.mark.parametrize("insecure", [False, True])
@pytest.mark.parametrize(
    ("path", "url"),
    [
        (STORAGE_URL, "https://shop.blob.core.windows.net:{}"),
        (LEASE_URL, "https://shop.blob.core.windows.net:{}"),
        (OUTPUT, "abfss://out@shop.dfs.core.windows.net:{}/x"),
        (PROXY, "http://a.proxy.example:{}"),
        ("sink.notices.url", "https://hooks.example:{}/files"),
        ("spark.output.body", "https://registry.example:{}"),
    ],
)
def test_a_port_that_does_not_exist_is_refused(path: str, url: str, port: int, insecure: bool) -> None:
    """It is a mistake of the user, and no error of the operator."""
    written = url.format(port)
    spec = spec_with(
        path,
        {"type": "Avro", "registry": {"type": "Confluent", "url": written}} if path == "spark.output.body" else written,
        SPEC | SPARK,
    )
    with pytest.raises(SpecError, match=f"{written} has no valid port: use one from 1 to 65535"):
        make_plan(observed(spec), replace(CLOSED, allow_insecure_endpoints=insecure))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (STORAGE_URL, "https://shop.blob.azure.example"),
        (LEASE_URL, "https://shop.blob.azure.example"),
        (NAMESPACE, "shop.hubs.azure.example"),
        (OUTPUT, "abfss://out@shop.dfs.azure.example/x"),
        (PROXY, "http://proxy.shop.example:3128"),
    ],
)
def test_the_administrator_allows_domains_for_each_role(path: str, value: str) -> None:
    spec = spec_with(path, value, SPEC | SPARK)
    if path == STORAGE_URL:
        spec["spark"] = {"output": {"path": "abfss://out@shop.dfs.azure.example/x"}}
    own = replace(
        SETTINGS,
        hub_suffixes=("hubs.azure.example",),
        storage_suffixes=("azure.example", "core.windows.net"),
        proxy_suffixes=("shop.example",),
    )
    config = make_plan(observed(spec), own).config
    assert (config.hub_suffixes, config.storage_suffixes) == (own.hub_suffixes, own.storage_suffixes)
    with pytest.raises(SpecError):
        make_plan(observed(spec), SETTINGS)
    assert make_plan(observed(spec), replace(SETTINGS, allow_insecure_endpoints=True)).config.allow_insecure_endpoints


@pytest.mark.parametrize(
    ("sink", "output", "allowed"),
    [
        ("shop.blob.core.windows.net", "shop.dfs.core.windows.net", True),
        ("shop.blob.core.windows.net", "shop.blob.core.windows.net", True),
        ("shop.z01.blob.storage.azure.net", "shop.z01.dfs.storage.azure.net", True),
        ("shop.blob.core.windows.net", "other.dfs.core.windows.net", False),
        ("shop.blob.core.windows.net", "shop.dfs.core.chinacloudapi.cn", False),
        ("shop.z01.blob.storage.azure.net", "shop.z02.blob.storage.azure.net", False),
    ],
)
def test_the_output_is_in_the_account_of_the_sink(sink: str, output: str, allowed: bool) -> None:
    spec = spec_with(STORAGE_URL, f"https://{sink}", SPEC | {"spark": {"output": {"path": f"abfss://out@{output}/x"}}})
    if allowed:
        make_plan(observed(spec), SETTINGS)
        return
    with pytest.raises(SpecError, match=f"is in {output}, the sink in {sink}: write to the sink's account") as caught:
        make_plan(observed(spec), SETTINGS)
    assert caught.value.field == "spec.spark.output.path"


# --- the endpoint of notices -----------------------------------------------------------------------------------------

HOOKS = ("https://hooks.example/files", "https://hooks.example/shop/", "http://10.1.2.3:8080/shop/")


def noticing(url: str) -> dict[str, Any]:
    return spec_with("sink.notices", {"url": url})


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://hooks.example/files", 443),
        ("https://hooks.example/shop/", 443),
        ("https://hooks.example/shop/orders/files", 443),
        ("http://10.1.2.3:8080/shop/orders", 8080),
    ],
)
def test_an_endpoint_of_notices_that_the_administrator_allows_gets_its_port(url: str, port: int) -> None:
    settings = replace(CLOSED, notice_endpoints=HOOKS)
    plan = make_plan(observed(noticing(url)), settings)
    assert plan.config.notices and plan.config.notices.url == url
    assert leaves(port, settings=settings, spec=noticing(url))
    with pytest.raises(SpecError, match="extend noticeEndpoints") as caught:
        make_plan(observed(noticing(url)), CLOSED)
    assert (caught.value.field, caught.value.reason) == ("spec.sink.notices.url", "EndpointNotAllowed")


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example/files/other",
        "https://hooks.example/files2",
        "https://hooks.example/shop",
        "https://hooks.example/shop/../admin",
        "https://hooks.example/shop/./x",
        "https://hooks.example/shop/..",
        "http://hooks.example/files",
        "https://hooks.example:444/files",
        "https://hooks.example.evil.example/files",
        "http://169.254.169.254/metadata",
        "http://10.1.2.3/shop/",
        "http://10.1.2.30:8080/shop/",
        "https://localhost/files",
        # These do not fit the schema: a user, a query, an encoded character, a fragment, upper case.
        "https://hooks.example@evil.example/files",
        "https://evil.example/?https://hooks.example/files",
        "https://hooks.example/shop/%2e%2e/admin",
        "https://hooks.example/shop/#x",
        "https://Hooks.example/files",
        "https://hooks.example\\@evil.example/files",
        "https://hooks.example",
        "https://hooks.example/shop/a\n",
    ],
)
def test_any_other_endpoint_of_notices_is_refused(url: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_plan(observed(noticing(url)), replace(SETTINGS, notice_endpoints=HOOKS))
    assert caught.value.field.startswith("spec.sink.notices.url")


# --- the schema registry ---------------------------------------------------------------------------------------------

REGISTRIES = ("https://shop.servicebus.windows.net", "https://registry.example/apis", "http://10.1.2.3:8081")


def decoding(url: str, kind: str = "Confluent") -> dict[str, Any]:
    signs_in = {"authentication": IDENTITY} if kind == "AzureSchemaRegistry" else {}
    body = {"type": "Avro", "registry": {"type": kind, "url": url} | signs_in}
    return spec_with("spark.output.body", body, SPEC | SPARK)


@pytest.mark.parametrize(
    ("url", "kind"), [(REGISTRIES[0], "AzureSchemaRegistry"), *((url, "Confluent") for url in REGISTRIES)]
)
def test_a_schema_registry_that_the_administrator_allows_is_read(url: str, kind: str) -> None:
    make_plan(observed(decoding(url, kind)), replace(SETTINGS, schema_registries=REGISTRIES))
    with pytest.raises(SpecError, match="extend schemaRegistries") as caught:
        make_plan(observed(decoding(url, kind)), SETTINGS)
    assert (caught.value.field, caught.value.reason) == ("spec.spark.output.body.registry.url", "EndpointNotAllowed")


@pytest.mark.parametrize(
    "url",
    [
        "https://registry.example",
        "https://registry.example/apis/..",
        "https://registry.example/apis/more",
        "https://registry.example/apis/",
        "https://other.servicebus.windows.net",
        "http://shop.servicebus.windows.net",
        "http://169.254.169.254",
        "http://10.1.2.30:8081",
        "https://registry.example@evil.example/apis",
        "https://Registry.example/apis",
        "https://registry.example/apis?x",
        "https://registry.example/apis\n",
    ],
)
def test_any_other_schema_registry_is_refused(url: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_plan(observed(decoding(url)), replace(SETTINGS, schema_registries=REGISTRIES))
    assert caught.value.field.startswith("spec.spark.output.body.registry.url")


def test_a_token_is_not_sent_to_a_registry_without_encryption() -> None:
    with pytest.raises(SpecError, match="is not encrypted: use https") as caught:
        make_plan(
            observed(decoding(REGISTRIES[2], "AzureSchemaRegistry")), replace(SETTINGS, schema_registries=REGISTRIES)
        )
    assert caught.value.reason == "InsecureEndpoint"
