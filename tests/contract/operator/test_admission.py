"""The admission policy of the chart on a real API server refuses what the operator refuses, with field and remedy."""

import functools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from eventconsumer_api.spec.endpoints import AZURE_HUB_SUFFIXES, AZURE_STORAGE_SUFFIXES
from eventconsumer_api.spec.scheduling import RESERVED_DOMAINS, RESERVED_KEYS
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.plan.egress import NEVER
from eventconsumer_operator.plan.pods import TOPOLOGY
from eventconsumer_operator.resource.pods import DEFAULT_LIMITS, PROGRAM_MIB
from eventconsumer_operator.settings import Settings, parse_settings
from tests.contract.operator.conftest import Cluster, rendered_chart
from tests.support.fakes.kubernetes import event_consumer
from tests.support.waiting import HANG_SECONDS
from tests.unit.operator.plan.test_plan_references import input_from
from tests.unit.operator.resource.test_plan_pods import PATHS, PLACEMENTS, with_pods
from tests.unit.operator.worlds import SPARK, SPEC, observed, spec_with

SERVED = "admission"
VALUES = ",".join(
    (
        f"watchNamespaces={{{SERVED}}}",
        "handlerImagePrefixes={registry.example.com/shop/,registry.example.com/one,images.example.com,registry.example.com/two:1}",
        "sparkImagePrefixes={registry.example.com/spark,localhost:5000}",
        "sparkLaunchers={Kubeflow}",
        "secretNamePrefixes={s,hub-,registry}",
        "configMapNamePrefixes={shop,app-}",
        "envPrefixes={SHOP_}",
        "egressCidrs={10.1.0.0/16,fd00:1::/64,168.63.0.0/16,2000::/3,64:ff9b::/64}",
        "egressNamespaces={data}",
        "imagePullSecrets[0].name=registry",
        "podMetadataPrefixes={shop.example/,team}",
        "nodeLabelPrefixes={shop.example/,pool}",
        "taintPrefixes={shop.example/,drain}",
        "priorityClasses={drain}",
        "storageClasses={fast}",
        "proxySuffixes={proxy.example}",
        r"noticeEndpoints={https://hooks.example/files,http://10.1.2.3:8080/shop/}",
        r"schemaRegistries={https://registry.example,http://10.1.2.3:8081/apis,https://shop.servicebus.windows.net}",
    )
)
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
OUTPUT = {"path": "abfss://out@shop.dfs.core.windows.net/orders"}
LONG_LABEL = f"shop.example/{'a' * 60}"
HANDLER = {"handler": "shop:Shop", "image": "registry.example.com/one"}
IMAGE, PROGRAM = "spec.processing.image", "spec.spark.application.image"
SINK, LEASES = "spec.sink.storageAccountUrl", "spec.checkpointStore.storageAccountUrl"
HUB, PROXY = "spec.eventHub.fullyQualifiedNamespace", "spec.proxy.url"
EGRESS, PROGRAM_EGRESS = "spec.processing.egress", "spec.spark.application.egress"
PLAIN_INPUTS = {
    "env": {"name": "SHOP_PLAIN", "value": "x"},
    "envFrom": {"prefix": "SHOP_ANY_", "configMapRef": {"name": "app-all"}},
    "volumes": {"mountPath": "/config/all", "configMap": {"name": "app-all"}},
}
OWN_CODE = {
    "processing": SPEC | {"processing": HANDLER},
    "spark.application": SPEC | spec_with("spark.application.image", "registry.example.com/spark", SPARK),
}
BUFFER, MIB = "spec.processing.bufferBytes", 2**20


def handler(image: str) -> dict[str, Any]:
    return spec_with("processing", HANDLER | {"image": image})


def program(image: str, *, enabled: bool = True) -> dict[str, Any]:
    return spec_with("spark", {"enabled": enabled, "application": {"image": image}, "output": OUTPUT})


def pods(**fields: Any) -> dict[str, Any]:
    return spec_with("pods", fields)


def secret(part: str, name: str) -> dict[str, Any]:
    return spec_with(f"{part}.authentication", {"connectionStringSecretRef": {"name": name, "key": "key.pem"}})


def proxy(url: str, name: str = "s") -> dict[str, Any]:
    return spec_with("proxy", {"url": url, "credentialsSecretRef": {"name": name, "key": "k"}})


def notices(url: str, name: str = "s") -> dict[str, Any]:
    reference = {"name": name, "key": "k"}
    return spec_with("sink.notices", {"url": url, "authentication": {"headerSecretRef": reference}})


def registry(url: str, name: str = "s", kind: str = "Confluent") -> dict[str, Any]:
    signs_in = (
        {"basicSecretRef": {"name": name, "key": "k"}}
        if kind == "Confluent"
        else {"workloadIdentity": {"clientId": "c"}}
    )
    body = {"type": "Avro", "registry": {"type": kind, "url": url, "authentication": signs_in}}
    return spec_with("spark", {"output": OUTPUT | {"body": body}})


def terms(kind: str, key: str) -> dict[str, Any]:
    """A spec that names a node label in each kind of term."""
    if kind == "node":
        condition = {"matchExpressions": [{"key": "pool", "operator": "Exists"}, {"key": key, "operator": "Exists"}]}
        node = {
            REQUIRED: {"nodeSelectorTerms": [condition]},
            PREFERRED: [{"weight": 1, "preference": condition}],
        }
        return pods(affinity={"nodeAffinity": node})
    term = {"labelSelector": {}, "topologyKey": key}
    pod = {REQUIRED: [term], PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}
    return pods(affinity={"podAffinity": pod, "podAntiAffinity": pod})


def inputs(kind: str, name: str) -> dict[str, dict[str, Any]]:
    """Field -> a spec whose handler or program has one Secret or ConfigMap (`kind` is secret or configMap) there."""
    return {
        f"spec.{part}.{field}": spec_with(f"{part}.{field}", [PLAIN_INPUTS[field], item], base)
        for part, base in OWN_CODE.items()
        for field in PLAIN_INPUTS
        for item in [input_from(field, kind, name)]
    }


def named(name: str, prefix: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Case -> field and spec: a handler or program with a variable of this name, or all keys with this prefix."""
    return {
        f"{name or prefix} in {part}.{field}": (
            f"spec.{part}.{field}",
            spec_with(f"{part}.{field}", [PLAIN_INPUTS[field], PLAIN_INPUTS[field] | changed], base),
        )
        for part, base in OWN_CODE.items()
        for field, changed in (("env", {"name": name}), ("envFrom", {"prefix": prefix}))
    }


def egress(field: str = EGRESS, /, **peer: Any) -> dict[str, Any]:
    rules = [{"to": [{"podSelector": {}}, peer], "ports": [{"port": 5432}]}]
    base = spec_with("spark.application.image", "registry.example.com/spark/mine:1", SPEC | SPARK)
    return spec_with(field.removeprefix("spec."), rules, base | {"processing": HANDLER})


def addresses(cidr: str, *left_out: str, field: str = EGRESS) -> dict[str, Any]:
    return egress(field, ipBlock={"cidr": cidr, "except": list(left_out)})


def of_each(field: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Destinations that nobody allowed, or nobody can allow."""
    cases = {
        "addresses that nobody allowed": addresses("10.2.0.0/24", field=field),
        "more addresses than allowed": addresses("10.0.0.0/8", field=field),
        "services of the node": addresses("168.63.129.16/32", field=field),
        "IPv4 addresses in IPv6": addresses("::ffff:168.63.129.16/128", field=field),
        "IPv4 addresses behind NAT64": addresses("64:ff9b::a83f:8110/128", field=field),
        "IPv4 addresses behind 6to4": addresses("2002:a9fe:a9fe::/48", field=field),
        "an exception elsewhere": addresses("10.1.2.0/24", "10.1.3.0/25", field=field),
        "an exception of IPv4 addresses in IPv6": addresses("10.1.2.0/24", "::ffff:10.1.2.0/120", field=field),
        "pods of a namespace that nobody allowed": egress(field, podSelector={}, namespaces=["data", "kube-system"]),
    }
    return {f"{name} in {field}": (field, spec) for name, spec in cases.items()}


ACCEPTED: dict[str, dict[str, Any]] = {
    "nothing but the required": SPEC,
    "a handler below a prefix": handler("registry.example.com/shop/orders:1"),
    "a handler that is the prefix": handler("registry.example.com/one@sha256:" + "0" * 64),
    "a handler of an allowed registry": handler("images.example.com/x:1"),
    "a handler of an allowed tag": handler("registry.example.com/two:1"),
    "a program of an allowed port": program("localhost:5000/x:1"),
    "a program": program("registry.example.com/spark/mine:1"),
    "a program that is not used": program("evil.example/x", enabled=False),
    "an enabled launcher": spec_with("spark", {"launcher": "Kubeflow", "output": OUTPUT}),
    "a Secret with a prefix": secret("eventHub", "hub-orders"),
    "a name that only begins as a reserved one": secret("sink", "registry-of-the-shop"),
    **{f"a ConfigMap in {field}": spec for field, spec in inputs("configMap", "shop-orders").items()},
    **{f"a Secret in {field}": spec for field, spec in inputs("secret", "shop-orders").items()},
    **{case: spec for case, (_, spec) in named("SHOP_A", "SHOP_").items()},
    **{case: spec for case, (_, spec) in named("APP_a", "APP_X_").items()},
    "addresses": addresses("10.1.2.0/24", "10.1.2.128/25"),
    "addresses of version 6": addresses("fd00:1::/96"),
    "addresses of a program": addresses("10.1.2.0/24", "10.1.2.128/25", field=PROGRAM_EGRESS),
    "pods of a namespace, of a program": egress(PROGRAM_EGRESS, podSelector={}, namespaces=["data"]),
    "pods of its own namespace": egress(podSelector={"matchLabels": {"app": "redis"}}),
    "pods of a namespace": egress(podSelector={}, namespaces=["data"]),
    "a proxy under an allowed domain": proxy("http://Proxy.example:3128"),
    "an endpoint of notices": notices("https://hooks.example/files"),
    "a schema registry": registry("https://registry.example"),
    "a schema registry in the network": registry("http://10.1.2.3:8081/apis"),
    "a schema registry with a token": registry("https://shop.servicebus.windows.net", kind="AzureSchemaRegistry"),
    "an endpoint of notices below an allowed one": notices("http://10.1.2.3:8080/shop/orders"),
    "labels and annotations": pods(labels={"team": "a", LONG_LABEL: "b"}, annotations={"shop.example/x": "y"}),
    "a priority class": pods(priorityClassName="drain"),
    "a taint": pods(tolerations=[{"key": "drain", "operator": "Exists"}, {"key": "shop.example/x", "value": "1"}]),
    "a node selector": pods(nodeSelector={"pool": "a", "shop.example/disk": "ssd"}),
    "terms about nodes": terms("node", "shop.example/gpu"),
    "terms about pods by host": terms("pod", "kubernetes.io/hostname"),
    "terms about pods by zone": terms("pod", "topology.kubernetes.io/zone"),
    "terms about pods by an allowed label": terms("pod", "pool"),
    **{
        f"a place of {path}": with_pods(
            path, {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "drain", "operator": "Exists"}]}
        )
        for path in PATHS
    },
    "a storage class": with_pods("spec.spark.executor", {"scratch": {"size": "1Gi", "storageClassName": "fast"}}),
    "a place of Spark that is not used": spec_with(
        "spark.enabled", False, with_pods("spec.spark.driver", {"nodeSelector": {"other": "a"}})
    ),
    "a hub": spec_with("eventHub.fullyQualifiedNamespace", "Shop.ServiceBus.windows.net"),
    "a URL": spec_with("sink.storageAccountUrl", "https://shop.blob.core.windows.net/"),
    "a secondary endpoint": spec_with("sink.storageAccountUrl", "https://shop-secondary.blob.core.windows.net"),
    "an account in a zone": spec_with("checkpointStore.storageAccountUrl", "https://shop.z12.blob.storage.azure.net"),
    "a buffer within the default limit": spec_with("processing.bufferBytes", 568 * MIB),
    "a buffer within a limit": spec_with(
        "pods.resources.limits.memory", "65736Mi", spec_with("processing.bufferBytes", 64 * 2**30)
    ),
    "a buffer within a request": spec_with(
        "pods.resources.requests.memory", "1Gi", spec_with("processing.bufferBytes", 800 * MIB)
    ),
}
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a handler of another registry": (IMAGE, handler("evil.example/x:1")),
    "a handler at another port of a registry": (IMAGE, handler("images.example.com:5000/x:1")),
    "a handler that a registry only begins": (IMAGE, handler("images.example.com.evil.example/x:1")),
    "a handler named like a registry": (IMAGE, handler("images.example.com:5000")),
    "another digest of an allowed tag": (IMAGE, handler(f"registry.example.com/two:1@sha256:{'0' * 64}")),
    "a program at another port of a registry": (PROGRAM, program("localhost:5001/x")),
    "a handler beside a prefix": (IMAGE, handler("registry.example.com/oneself:1")),
    "a program of another registry": (PROGRAM, program("evil.example/x:1")),
    "a program beside a prefix": (PROGRAM, program("registry.example.com/sparkling")),
    "a launcher": ("spec.spark.launcher", spec_with("spark", {"launcher": "Apache", "output": OUTPUT})),
    **{
        f"the Secret {name} in {part}": (
            f"spec.{part}.authentication.connectionStringSecretRef.name",
            secret(part, name),
        )
        for part in ("eventHub", "checkpointStore", "sink")
        for name in ("eventconsumer-fleet-key", "registry", "sh.helm.release.v1.eventconsumer.v1", "other")
    },
    **{
        f"the Secret {name} in proxy": (
            "spec.proxy.credentialsSecretRef.name",
            proxy("http://a.proxy.example:1", name),
        )
        for name in ("eventconsumer-fleet-key", "registry", "sh.helm.release.v1.x.v1", "other")
    },
    **{
        f"the Secret {name} in {field}": (field, spec)
        for name in ("eventconsumer-fleet-key", "registry", "sh.helm.release.v1.x.v1", "other")
        for field, spec in inputs("secret", name).items()
    },
    **{
        f"the ConfigMap {name} in {field}": (field, spec)
        for name in ("shop-host", "other")
        for field, spec in inputs("configMap", name).items()
    },
    **named("LOG4J_CONFIGURATION_FILE", "LOG4J_"),
    **named("SHOPS_A", "S_"),
    **of_each(EGRESS),
    **of_each(PROGRAM_EGRESS),
    "a label": ("spec.pods.labels", pods(labels={"teams": "a"})),
    "a label of another domain": ("spec.pods.labels", pods(labels={"shop.example.evil/a": "a"})),
    "a reserved label": ("spec.pods.labels", pods(labels={"controller-uid": "a"})),
    "an annotation": ("spec.pods.annotations", pods(annotations={"sidecar.istio.example/inject": "true"})),
    "an annotation of a reserved domain": (
        "spec.pods.annotations",
        pods(annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}),
    ),
    "a priority class": ("spec.pods.priorityClassName", pods(priorityClassName="system-node-critical")),
    "every taint": ("spec.pods.tolerations", pods(tolerations=[{"operator": "Exists"}])),
    **{
        f"a place: {path}.{field}": (f"{path}.{field}", with_pods(path, placement))
        for path in PATHS
        for field, placement in PLACEMENTS.items()
    },
    **{
        f"{field} of {path}": (f"{path}.{field}", with_pods(path, {field: value}))
        for path in PATHS[1:]
        for field, value in {
            "labels": {"teams": "a"},
            "annotations": {"prometheus.io/scrape": "true"},
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
        }.items()
    },
    **{
        f"a storage class of {path}": (
            f"{path}.scratch.storageClassName",
            with_pods(path, {"scratch": {"size": "1Gi", "storageClassName": "slow"}}),
        )
        for path in PATHS[1:]
    },
    "a second condition on nodes": (f"spec.pods.affinity.nodeAffinity.{REQUIRED}", terms("node", "kubernetes.io/os")),
    "a topology": (f"spec.pods.affinity.podAffinity.{REQUIRED}", terms("pod", "kubernetes.io/os")),
    "a hub elsewhere": (HUB, spec_with("eventHub.fullyQualifiedNamespace", "evil.example")),
    "a hub by address": (HUB, spec_with("eventHub.fullyQualifiedNamespace", "169.254.169.254")),
    "a hub with a domain in front": (
        HUB,
        spec_with("eventHub.fullyQualifiedNamespace", "servicebus.windows.net.evil.example"),
    ),
    "a hub whose name only ends alike": (
        HUB,
        spec_with("eventHub.fullyQualifiedNamespace", "evilservicebus.windows.net"),
    ),
    "a hub in a domain below": (HUB, spec_with("eventHub.fullyQualifiedNamespace", "a.b.servicebus.windows.net")),
    "a hub that is storage": (HUB, spec_with("eventHub.fullyQualifiedNamespace", "shop.blob.core.windows.net")),
    "files in a relay": (SINK, spec_with("sink.storageAccountUrl", "https://evil.servicebus.windows.net")),
    "files in tables": (SINK, spec_with("sink.storageAccountUrl", "https://shop.table.core.windows.net")),
    "files with a port": (SINK, spec_with("sink.storageAccountUrl", "https://shop.blob.core.windows.net:443")),
    "files in a wrong zone": (SINK, spec_with("sink.storageAccountUrl", "https://shop.blob.storage.azure.net")),
    "output in a relay": (
        "spec.spark.output.path",
        spec_with("spark", {"output": {"path": "abfss://out@evil.servicebus.windows.net/x"}}),
    ),
    "files elsewhere": (SINK, spec_with("sink.storageAccountUrl", "https://evil.example")),
    "files in plain": (SINK, spec_with("sink.storageAccountUrl", "http://shop.blob.core.windows.net")),
    "files on this machine": (SINK, spec_with("sink.storageAccountUrl", "https://localhost:10000/account")),
    "leases elsewhere": (LEASES, spec_with("checkpointStore.storageAccountUrl", "https://10.0.0.1:443")),
    "leases in plain": (LEASES, spec_with("checkpointStore.storageAccountUrl", "http://shop.blob.core.windows.net")),
    "output elsewhere": (
        "spec.spark.output.path",
        spec_with("spark", {"output": {"path": "abfss://out@evil.example/x"}}),
    ),
    "a proxy elsewhere": (PROXY, proxy("http://proxy.example.com:3128")),
    **{
        f"notices to {url}": ("spec.sink.notices.url", notices(url))
        for url in (
            "https://hooks.example/files/other",
            "https://hooks.example.evil.example/files",
            "http://10.1.2.3:8080/admin",
            "http://169.254.169.254/metadata",
        )
    },
    **{
        f"schemas from {url}": ("spec.spark.output.body.registry.url", registry(url))
        for url in ("https://registry.example/other", "https://registry.example.evil.example", "http://169.254.169.254")
    },
    "schemas with a token in plain": (
        "spec.spark.output.body.registry.url",
        registry("http://10.1.2.3:8081/apis", kind="AzureSchemaRegistry"),
    ),
    **{
        f"the Secret {name} at a schema registry": (
            "spec.spark.output.body.registry.authentication.basicSecretRef.name",
            registry("https://registry.example", name),
        )
        for name in ("eventconsumer-fleet-key", "registry", "sh.helm.release.v1.x.v1", "other")
    },
    **{
        f"the Secret {name} in notices": (
            "spec.sink.notices.authentication.headerSecretRef.name",
            notices("https://hooks.example/files", name),
        )
        for name in ("eventconsumer-fleet-key", "registry", "sh.helm.release.v1.x.v1", "other")
    },
    "a buffer above the default limit": (BUFFER, spec_with("processing.bufferBytes", 568 * MIB + 1)),
    "a buffer above a limit": (
        BUFFER,
        spec_with("pods.resources.limits.memory", "400Mi", spec_with("processing.bufferBytes", 201 * MIB)),
    ),
    "the default buffer above a limit": (BUFFER, spec_with("pods.resources.limits.memory", 10**8)),
}


def documents(kinds: set[str]) -> list[dict[str, Any]]:
    return [each for each in yaml.load_all(rendered_chart(VALUES), yaml.CSafeLoader) if each and each["kind"] in kinds]


@functools.cache
def settings() -> Settings:
    """What the operator of the same release makes of its arguments."""
    (deployment,) = documents({"Deployment"})
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return parse_settings(arguments, {"POD_NAMESPACE": "operator-system"})


@pytest.fixture(scope="module")
def policed(cluster: Cluster) -> Iterator[Cluster]:
    """The API server with the policy for one namespace, as soon as it is in force."""
    policy = documents({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
    assert len(policy) == 2
    cluster.kubectl("create", "namespace", SERVED)
    cluster.kubectl(
        "apply", "--server-side", "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": policy})
    )
    deadline = time.monotonic() + HANG_SECONDS
    while not refusal(cluster, pods(priorityClassName="high")):
        assert time.monotonic() < deadline, "the policy is not in force"
        time.sleep(0.2)
    yield cluster
    for each in policy:
        cluster.kubectl("delete", each["kind"], each["metadata"]["name"])


def refusal(cluster: Cluster, spec: dict[str, Any], namespace: str = SERVED) -> str:
    return cluster.apply(event_consumer("orders", spec, namespace), dry_run=True)


def operators(spec: dict[str, Any]) -> str:
    """The operator's message; empty where it makes a plan."""
    try:
        make_plan(observed(spec), settings())
    except SpecError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_the_settings_allow_is_accepted_by_both(case: str, policed: Cluster) -> None:
    assert (refusal(policed, ACCEPTED[case]), operators(ACCEPTED[case])) == ("", "")


@pytest.mark.parametrize("case", REFUSED)
def test_what_they_do_not_allow_is_refused_by_both_with_field_and_remedy(case: str, policed: Cluster) -> None:
    field, spec = REFUSED[case]
    message, own = refusal(policed, spec), operators(spec)
    assert own.startswith(f"{field}: "), own
    assert f"denied request: {field}: " in message, message
    remedies = (
        "use ",
        "correct it",
        "ask the operator's administrator to",
        "remove it",
        "name the key",
        "set spec.pods.resources",
    )
    assert any(remedy in message.partition(field)[2] for remedy in remedies)


def test_pods_of_the_resources_own_namespace_need_no_permission(policed: Cluster) -> None:
    assert refusal(policed, egress(podSelector={}, namespaces=[SERVED])) == ""


def test_a_stored_resource_can_be_labelled_and_deleted_and_other_namespaces_are_not_checked(policed: Cluster) -> None:
    other = policed.namespace()
    spec = pods(priorityClassName="high")
    assert refusal(policed, spec, other) == ""
    (binding,) = documents({"ValidatingAdmissionPolicyBinding"})
    name = binding["metadata"]["name"]
    policed.kubectl("delete", "validatingadmissionpolicybinding", name)
    deadline = time.monotonic() + HANG_SECONDS
    while policed.apply(event_consumer("stored", spec, SERVED)):
        assert time.monotonic() < deadline, "the policy is still in force"
        time.sleep(0.2)
    policed.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(binding))
    while not refusal(policed, spec):
        assert time.monotonic() < deadline, "the policy is not in force again"
        time.sleep(0.2)
    policed.kubectl("-n", SERVED, "label", "evc", "stored", "team=a")
    changed = policed.apply(event_consumer("stored", spec | {"suspend": True}, SERVED))
    assert "spec.pods.priorityClassName: high is not allowed" in changed
    policed.kubectl("-n", SERVED, "delete", "evc", "stored")


def variables(values: str) -> dict[str, str]:
    """Expressions of the policy's variables by name; empty without a policy."""
    rendered = yaml.load_all(rendered_chart(f"watchNamespaces={{shop}}{values}"), yaml.CSafeLoader)
    policies = [each for each in rendered if each and each["kind"] == "ValidatingAdmissionPolicy"]
    return {each["name"]: each["expression"] for policy in policies for each in policy["spec"]["variables"]}


def test_lists_of_the_policy_are_those_of_the_operator() -> None:
    default = variables("")
    assert [unescaped(form) for form in json.loads(default["hubHosts"])] == [
        f"^[a-z0-9]([a-z0-9-]{{0,61}}[a-z0-9])?.{suffix}(:(5671|443))?$" for suffix in AZURE_HUB_SUFFIXES
    ]
    assert [unescaped(form).rpartition("(blob|dfs).")[2] for form in json.loads(default["storageHosts"])] == [
        f"{suffix}$" for suffix in AZURE_STORAGE_SUFFIXES
    ]
    assert json.loads(default["proxyHosts"]) == []
    assert json.loads(default["egressNever"]) == [str(network) for network in NEVER]
    assert json.loads(default["reservedDomains"]) == list(RESERVED_DOMAINS)
    assert set(json.loads(default["reservedKeys"])) == RESERVED_KEYS
    assert json.loads(default["topology"]) == list(TOPOLOGY)
    assert f'quantity("{DEFAULT_LIMITS["memory"]}")' in default["memory"]
    assert f"/ 1048576 + {PROGRAM_MIB}" in default["buffer"]
    assert str(EventConsumerSpec.model_fields["processing"].default.buffer_bytes) in default["buffer"]
    own = variables(",hubSuffixes={*.Hubs.example},storageSuffixes={Store.example.}")
    assert unescaped(own["hubHosts"]).endswith('.hubs.example(:(5671|443))?$"]')
    assert unescaped(own["storageHosts"]).endswith('.(blob|dfs).store.example$"]')


def test_a_cluster_without_ranges_in_cel_leaves_them_to_the_operator() -> None:
    assert "egressAddresses" in variables(",egressCidrs={10.1.0.0/16}")
    old = rendered_chart("watchNamespaces={shop},egressCidrs={10.1.0.0/16}", "1.30.0")
    assert "containsCIDR" not in old and "egressNamespace" in old
    assert "egressAddresses" in rendered_chart("watchNamespaces={shop}", "1.30.0"), "none are allowed"


def unescaped(form: str) -> str:
    return form.replace("\\", "")


def test_emulators_need_no_domain_and_the_policy_can_be_left_out() -> None:
    endpoints = {name for name in variables("") if name.endswith(("Host", "Plain"))}
    assert len(endpoints) == 8
    assert not endpoints & variables(",allowInsecureEndpoints=true").keys()
    assert variables(",admissionPolicy.enabled=false") == {}
