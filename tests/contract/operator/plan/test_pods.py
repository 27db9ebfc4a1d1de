"""What is planned, on a real API server: accepted, admitted where pods are restricted, and without drift."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.quantities import canonical
from eventconsumer_operator.apply import Outcome, apply
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.manifest import NETWORK_POLICY, STATEFUL_SET, STORED, kind_of, name_of
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.plan.config import host_config
from eventconsumer_operator.resource.pods import host_template
from eventconsumer_operator.resource.spec import parse_spec
from eventconsumer_operator.settings import Settings
from tests.contract.operator.conftest import Cluster
from tests.support.fakes.hosts import FakeHosts
from tests.support.fakes.kubernetes import event_consumer
from tests.support.operatorworld import stored
from tests.unit.operator.resource.test_plan_pods import AFFINITY
from tests.unit.operator.spark.test_plan_spark import executor_of
from tests.unit.operator.worlds import IDENTITY, SPARK, SPEC, batch, consumer, fleet, load, observed, report, spec_with

ADMINISTRATOR = Settings(
    namespaces=("shop",),
    processor_image="host:1",
    spark_image="spark:1",
    pod_metadata_prefixes=("shop.example/", "team"),
    node_label_prefixes=("shop.example/", "kubernetes.io/", "cores"),
    taint_prefixes=("any", "drain", "slow"),
    priority_classes=("drain",),
    storage_classes=("fast",),
    handler_image_prefixes=("shop:1",),
    env_prefixes=("DB_",),
    egress_cidrs=("10.1.0.0/16", "0.0.0.0/0"),
    network_policies=True,
    operator_namespace="operators",
    metrics_namespaces=("monitoring",),
)
FULL: dict[str, Any] = {
    "nodeSelector": {"shop.example/pool": "drain", "kubernetes.io/os": "linux"},
    "tolerations": [
        {"key": "any", "operator": "Exists"},
        {"key": "drain", "value": "only", "effect": "NoSchedule"},
        {"key": "slow", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
    ],
    "affinity": AFFINITY,
    "priorityClassName": "drain",
    "labels": {"shop.example/cost": "42", "team": ""},
    "annotations": {"shop.example/note": "several\nlines"},
    "resources": {
        "requests": {"cpu": 1, "memory": "1024Mi"},
        "limits": {"cpu": "1500m", "memory": "2Gi", "ephemeral-storage": "1000M"},
    },
    "terminationGracePeriodSeconds": 120,
}

PLACE = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "labels", "annotations")


HANDLER: dict[str, Any] = {
    "handler": "shop:Shop",
    "image": "shop:1",
    "env": [
        {"name": "APP_MODE", "value": "$$ " + "x" * 300},
        {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "password", "optional": True}}},
        {"name": "APP_REGION", "valueFrom": {"configMapKeyRef": {"name": "shop", "key": "region"}}},
    ],
    "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "shop"}}, {"prefix": "DB_", "secretRef": {"name": "shop"}}],
    "volumes": [
        {"mountPath": "/config/shop", "configMap": {"name": "shop", "items": [{"key": "a.b", "path": "c"}]}},
        {"mountPath": "/secrets/shop", "secret": {"secretName": "shop", "optional": True}},
    ],
    "egress": [
        {
            "to": [
                {"ipBlock": {"cidr": "10.1.0.0/16", "except": ["10.1.2.0/24"]}},
                {"ipBlock": {"cidr": "0.0.0.0/0"}},
                {"podSelector": {"matchLabels": {"app": "redis"}}},
            ],
            "ports": [{"port": 6379}],
        }
    ],
}


async def reconcile(api: KubernetesApi, namespace: str, settings: Settings = ADMINISTRATOR) -> Outcome:
    """Plan and apply once, from what the API server has."""
    world = await load(await stored(api, namespace), FakeHosts(), Key(namespace, "orders"))
    assert world is not None
    return await apply(api, world, make_plan(world, settings))


async def versions(api: KubernetesApi, namespace: str) -> dict[str, str]:
    store = await stored(api, namespace)
    return {
        f"{kind.name}/{manifest['metadata']['name']}": manifest["metadata"]["resourceVersion"]
        for kind, manifest in store.belonging(Key(namespace, "orders"))
    }


def put(cluster: Cluster, namespace: str, spec: dict[str, Any]) -> str:
    """Apply a resource as its user would; return its resourceVersion."""
    assert cluster.apply(event_consumer("orders", spec, namespace)) == ""
    found = cluster.kubectl("get", "evc", "orders", "-n", namespace, "-o", "jsonpath={.metadata.resourceVersion}")
    return found.stdout


async def contents(api: KubernetesApi, namespace: str) -> dict[str, Manifest]:
    """The objects but for the parts that each write changes; each has one manager of fields, by `Apply`."""
    found = {}
    for kind in STORED[1:-2]:
        live = await api.get(kind, namespace, "orders-host")
        assert live is not None, kind
        (entry,) = live["metadata"].pop("managedFields")
        assert (entry["manager"], entry["operation"]) == (labels.FIELD_MANAGER, "Apply"), kind
        del live["metadata"]["resourceVersion"]
        found[kind.name] = live
    return found


async def apply_by_force(api: KubernetesApi, namespace: str) -> None:
    """Apply the planned manifests with the annotations of the live objects."""
    world = await load(await stored(api, namespace), FakeHosts(), Key(namespace, "orders"))
    assert world is not None
    for manifest in make_plan(world, ADMINISTRATOR).applied:
        live = world.children[kind_of(manifest), name_of(manifest)]
        stamped = copy.deepcopy(manifest)
        stamped["metadata"]["annotations"] = live["metadata"]["annotations"]
        await api.apply(stamped)


async def assert_settled(api: KubernetesApi, namespace: str, settings: Settings = ADMINISTRATOR) -> None:
    """Another reconcile writes nothing."""
    before = await versions(api, namespace)
    outcome = await reconcile(api, namespace, settings)
    assert (outcome.changes, outcome.errors) == ((), ())
    assert await versions(api, namespace) == before


async def test_applied_objects_stay_and_parts_that_go_away_are_removed(cluster: Cluster, api: KubernetesApi) -> None:
    """Defaults of the API server are no reason to write again, for the user as for the operator."""
    namespace = cluster.namespace()
    spec = SPEC | {"pods": FULL, "processing": HANDLER}
    version = put(cluster, namespace, spec)
    assert put(cluster, namespace, spec) == version
    manifest = json.dumps(event_consumer("orders", spec, namespace))
    assert cluster.kubectl("diff", "--server-side", "-f", "-", stdin=manifest, check=False).stdout == ""
    first = await reconcile(api, namespace)
    assert not first.errors and len(first.changes) == 6
    made = await versions(api, namespace)
    assert made.keys() >= {f"{kind}/orders-host" for kind in ("StatefulSet", "PodDisruptionBudget", "NetworkPolicy")}
    await assert_settled(api, namespace)

    # The same again by force changes no field: each has one manager. Only the ownership of defaults ends, once.
    before = await contents(api, namespace)
    for _ in range(2):
        again = await versions(api, namespace)
        await apply_by_force(api, namespace)
    assert await versions(api, namespace) == again != made
    assert await contents(api, namespace) == before

    # Without `spec.pods` and `spec.processing` their parts leave the template.
    put(cluster, namespace, SPEC)
    assert len((await reconcile(api, namespace)).changes) == 3  # the configuration knows the grace time, too
    found = await api.get(STATEFUL_SET, namespace, "orders-host")
    assert found is not None
    template = found["spec"]["template"]
    assert not {"nodeSelector", "tolerations", "affinity", "priorityClassName"} & template["spec"].keys()
    (container,) = template["spec"]["containers"]
    assert "envFrom" not in container and {each["name"] for each in container["env"]} == {"POD_NAME", "POD_UID"}
    assert not [each for each in template["spec"]["volumes"] if each["name"] in {"config-shop", "secrets-shop"}]
    assert not {"team", "shop.example/cost"} & template["metadata"]["labels"].keys()
    await assert_settled(api, namespace)

    # So does a policy that the administrator switches off.
    without = replace(ADMINISTRATOR, network_policies=False)
    assert (await reconcile(api, namespace, without)).changes == (
        "networkpolicy/orders-host deleted: no longer wanted",
        "networkpolicy/orders-host-ipv6 deleted: no longer wanted",
    )
    assert await api.get(NETWORK_POLICY, namespace, "orders-host") is None
    await assert_settled(api, namespace, without)


QUANTITIES = [
    "0",
    "1",
    "0.5",
    "0.0001",
    "1000",
    "1000m",
    "1500m",
    "999m",
    "1.5",
    "2.50",
    "0.1k",
    "1k",
    "1000k",
    "1024",
    "2048",
    "1024Ki",
    "1024Mi",
    "1000Mi",
    "1536Mi",
    "0.5Mi",
    "0.5Ki",
    "1.3Ki",
    "1.5Gi",
    "2048Gi",
    "1000M",
    "1024M",
    "1.25G",
    "123456789",
    "0.001",
    "1.0001",
    "0Gi",
    "99999999999999G",
    "100000000000Gi",
    "9999999999G",
    "999999999G",
    "1Ki",
    "1023Ki",
    "1000Ki",
]


def test_quantities_are_written_as_the_api_server_stores_them(cluster: Cluster) -> None:
    containers = [
        {"name": f"c{number}", "image": "i", "resources": {"requests": {"memory": quantity}}}
        for number, quantity in enumerate(QUANTITIES)
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "quantities", "namespace": "default"},
        "spec": {"containers": containers},
    }
    answer = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(pod)).stdout
    stored = [each["resources"]["requests"]["memory"] for each in json.loads(answer)["spec"]["containers"]]
    assert dict(zip(QUANTITIES, map(canonical, QUANTITIES), strict=True)) == dict(zip(QUANTITIES, stored, strict=True))


# --- the restricted Pod Security Standard ----------------------------------------------------------------------------


def templates(spec: dict[str, Any]) -> dict[str, Manifest]:
    """Every kind of pod that the operator makes of a spec, by component."""
    spec = SPARK | spec | {"replay": {"name": "again", "consumerGroup": "replay"}}
    world = observed(spec, reports={"orders-host-0": report(fleet=fleet(batch=batch()))})
    plan = make_plan(world, ADMINISTRATOR)
    found = [each["spec"]["template"] for each in (*plan.applied, *plan.jobs) if "template" in each.get("spec", {})]
    parsed = parse_spec(spec)
    config = host_config(consumer(spec), parsed, ADMINISTRATOR)
    probe = host_template(
        world.consumer.key,
        parsed,
        config,
        "host:1",
        config_map="orders-host",
        component=labels.COMPONENT_PROBE,
        arguments=("probe",),
    )
    return {template["metadata"]["labels"][labels.LABEL_COMPONENT]: template for template in [*found, probe]}


def of_spark(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec with all fields of pods in drivers and executors, on the node's disk and on volumes."""
    place = {name: FULL[name] for name in PLACE}
    volume = {"size": "100Gi", "storageClassName": "fast"}
    spark = {"driver": place | {"scratch": {"size": "1.5Gi"}}, "executor": place | {"scratch": volume}}
    return spec | {"spark": SPARK["spark"] | spark | {"mode": "Executors"}}


def admitted(cluster: Cluster, namespace: str, name: str, template: Manifest) -> str:
    """Create a pod of a template; return what the API server says when it refuses it, or warns."""
    pod = {"apiVersion": "v1", "kind": "Pod"} | copy.deepcopy(template)
    pod["metadata"] |= {"name": name, "namespace": namespace}
    return cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod), check=False).stderr


@pytest.fixture(scope="module")
def restricted(cluster: Cluster) -> str:
    """A namespace that admits restricted pods only, with the priority class that the specs name."""
    priority = {
        "kind": "PriorityClass",
        "apiVersion": "scheduling.k8s.io/v1",
        "metadata": {"name": "drain"},
        "value": 1,
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(priority))
    return cluster.namespace()


@pytest.mark.parametrize("kind", ["secrets", "identity"])
def test_every_pod_is_admitted_where_pods_are_restricted(cluster: Cluster, restricted: str, kind: str) -> None:
    spec = SPEC | {"pods": FULL, "processing": HANDLER}
    if kind == "identity":
        for part in ("checkpointStore", "sink"):
            spec = spec_with(f"{part}.authentication", IDENTITY, spec)
            spec[part]["storageAccountUrl"] = "https://shop.blob.core.windows.net"
    found = templates(of_spark(spec))
    executor = executor_of({"spec": {"template": found[labels.COMPONENT_SPARK]}})
    executor["spec"]["containers"][0]["image"] = "spark:1"  # Spark adds it
    found |= {"executor": executor, "small": templates(spec)[labels.COMPONENT_SPARK]}
    assert found.keys() >= {
        labels.COMPONENT_HOST,
        labels.COMPONENT_PROBE,
        labels.COMPONENT_REPLAY,
        labels.COMPONENT_SPARK,
    }
    for component, template in found.items():
        assert admitted(cluster, restricted, f"{component}-{kind}", template) == "", component


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("hostNetwork", True, "host namespaces"),
        ("volumes", [{"name": "tmp", "hostPath": {"path": "/"}}], "hostPath"),
        ("securityContext", {}, "runAsNonRoot"),
    ],
)
def test_that_namespace_does_refuse_what_is_not_restricted(
    cluster: Cluster, restricted: str, field: str, value: Any, named: str
) -> None:
    template = copy.deepcopy(templates(SPEC)[labels.COMPONENT_HOST])
    template["spec"][field] = value
    template["spec"]["containers"][0]["volumeMounts"] = []
    answer = admitted(cluster, restricted, f"bad-{field.lower()}", template)
    assert "violates PodSecurity" in answer
    assert named in answer
