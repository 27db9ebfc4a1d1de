"""Whoever may create an EventConsumer gains nothing else: what any spec can make of the objects that are created."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.expansion import inert
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.quantities import amount
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import Plan, make_plan
from eventconsumer_operator.resource.names import child_labels
from eventconsumer_operator.spark.pods import SCRATCH_FOLDER, SCRATCH_VOLUME
from tests.support.expansion import expand
from tests.unit.operator.specs import specs
from tests.unit.operator.worlds import KEY, SETTINGS, SPARK, SPEC, UID, batch, fleet, observed, report, spec_with

ADMINISTRATOR = replace(
    SETTINGS,
    env_prefixes=("DB_",),
    handler_image_prefixes=("registry.example/shop/",),
    spark_image_prefixes=("registry.example/spark/",),
    pod_metadata_prefixes=("shop.example/", "team"),
    node_label_prefixes=("shop.example/", "pool"),
    taint_prefixes=("shop.example/", "pool"),
    priority_classes=("drain",),
    storage_classes=("fast",),
    allow_insecure_endpoints=True,  # else few of the generated hosts get as far as a plan
    egress_cidrs=("10.1.0.0/16",),
    network_policies=True,
    operator_namespace="operators",
)
KEYS = st.sampled_from(["shop.example/a", "shop.example/b", "team", "team", "app.kubernetes.io/name", "other"])
PLACES = st.sampled_from([*["shop.example/pool", "pool"] * 4, "node-role.kubernetes.io/control-plane"])
NEAR = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
    }
}
NAMES = st.from_regex(r"[a-z0-9]{1,9}([-.][a-z0-9]{1,9})?", fullmatch=True)
KEYS_OF_SECRETS = st.from_regex(r"[-._a-zA-Z0-9]{1,20}", fullmatch=True)
SIGN_IN = st.one_of(  # exactly one, as a rule of the CRD says; few generated ones would be
    st.builds(lambda name, key: {"connectionStringSecretRef": {"name": name, "key": key}}, NAMES, KEYS_OF_SECRETS),
    st.builds(
        lambda client: {"workloadIdentity": {"clientId": client}}, st.from_regex(r"[A-Za-z0-9-]{1,40}", fullmatch=True)
    ),
)
CONFS = st.dictionaries(
    st.sampled_from(["spark.sql.shuffle.partitions", "spark.default.parallelism"] * 6)
    | st.sampled_from(
        [
            "spark.kubernetes.authenticate.driver.serviceAccountName",
            "spark.kubernetes.namespace",
            "spark.master",
            "spark.jars.packages",
            "spark.driver.extraJavaOptions",
            "spark.sql.extensions",
            "spark.sql.warehouse.dir",
            "spark.kubernetes.driver.podTemplateFile",
            "spark.hadoop.fs.azure.account.key.x",
            "spark.executorEnv.A",
        ]
    ),
    st.sampled_from(["1", "64", "512"] * 4) | st.sampled_from(["$(A)", "${env:A}", "abc", "1 --conf a=b", "-1", ""]),
    max_size=3,
)
VOLUMES = st.builds(  # exactly one source, as a rule of the CRD says
    lambda folder, name, kind: {"mountPath": folder + name, kind: {"secretName" if kind == "secret" else "name": name}},
    st.sampled_from(["/config/", "/secrets/", "/mnt/"]),
    st.from_regex(r"[a-z0-9]{1,9}", fullmatch=True),
    st.sampled_from(["configMap", "secret"]),
)
DESTINATIONS = st.builds(lambda cidr: {"ipBlock": {"cidr": cidr}}, st.sampled_from(["10.1.0.0/16", "10.1.2.3/32"]))
ANY = specs(
    {
        "spec.eventHub.authentication": SIGN_IN,
        "spec.checkpointStore.authentication": SIGN_IN,
        "spec.sink.authentication": SIGN_IN,
        "spec.proxy.url": st.from_regex(r"http://[a-z0-9]{1,9}:[0-9]{1,5}", fullmatch=True),  # a rule of the CRD
        "spec.processing.image": st.sampled_from(["registry.example/shop/orders:1", "evil.example/x", "host:1"]),
        "spec.spark.application.image": st.sampled_from(["registry.example/spark/mine:1", "evil.example/x", "spark:1"]),
        "spec.spark.application.conf": CONFS,
        **{
            f"{path}.{field}": values
            for path in ("spec.pods", "spec.spark.driver", "spec.spark.executor")
            for field, values in {
                "priorityClassName": st.sampled_from(["drain", "drain", "system-node-critical"]),
                "nodeSelector{}": PLACES,
                "tolerations[].key": PLACES,
                "labels{}": KEYS,
                "annotations{}": KEYS,
            }.items()
        },
        **{
            f"spec.spark.{role}.{field}": values
            for role in ("driver", "executor")
            for field, values in {
                "affinity": st.sampled_from([{}, {"nodeAffinity": NEAR}]),  # few generated ones are allowed
                "scratch.size": st.sampled_from(["1Gi", "100Gi"]),
                "scratch.storageClassName": st.sampled_from(["fast", "fast", "other"]),
            }.items()
        },
        **{
            f"{path}.{field}": values
            for path in ("spec.processing", "spec.spark.application")
            for field, values in {
                "env[].name": st.sampled_from([*["APP_A", "DB_PASSWORD", "APP_mode"] * 4, "PYTHONPATH", "no_proxy"]),
                "env[].value": st.sampled_from([*["x", "a$$b", "$"] * 4, "$(POD_UID)"]),
                "envFrom[].prefix": st.sampled_from([*["APP_", "DB_", "APP_A_"] * 4, "LD_", "HTTP_"]),
            }.items()
        },
        "spec.processing.volumes[]": VOLUMES,
        "spec.processing.egress[].to[]": DESTINATIONS,
        "spec.spark.application.egress[].to[]": DESTINATIONS,
        "spec.processing.bufferBytes": st.integers(2**24, 2**28),
        "spec.pods.resources.requests.*": st.sampled_from(["100m", "1", "64Mi"]),
        "spec.pods.resources.limits.*": st.sampled_from(["2Gi", 10**9]),
        "spec.pods.resources.requests{}": st.sampled_from(["cpu", "memory", "ephemeral-storage"]),
        "spec.pods.resources.limits{}": st.sampled_from(["cpu", "memory", "ephemeral-storage"]),
    }
)
KINDS = {"ConfigMap", "Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy", "Job"}
INPUTS = {
    "env": [{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "password"}}}],
    "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "shop"}}],
    "volumes": [
        {"mountPath": "/config/shop", "configMap": {"name": "shop"}},
        {"mountPath": "/secrets/shop", "secret": {"secretName": "shop", "items": [{"key": "a", "path": "b"}]}},
    ],
}
HANDLER = {"handler": "shop:Shop", "image": "registry.example/shop/orders:1"} | INPUTS
PREFIXES = ("APP_", "DB_")
PROGRAM = {"image": "registry.example/spark/mine:1"} | INPUTS
SPARK_COMPONENTS = {labels.COMPONENT_SPARK, labels.COMPONENT_REPROCESS}
OWN_ANNOTATIONS = {labels.ANNOTATION_CONFIG_HASH, labels.ANNOTATION_EXECUTOR}
ACCOUNTS = dict.fromkeys(SPARK_COMPONENTS, labels.SPARK_SERVICE_ACCOUNT)
USER_VOLUMES = ("config-", "secrets-", "mnt-")
POD_FIELDS = {
    "serviceAccountName",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "terminationGracePeriodSeconds",
    "securityContext",
    "nodeSelector",
    "tolerations",
    "affinity",
    "priorityClassName",
    "topologySpreadConstraints",
    "containers",
    "volumes",
    "restartPolicy",
}
CONTAINER_FIELDS = {
    "name",
    "image",
    "imagePullPolicy",
    "args",
    "env",
    "envFrom",
    "ports",
    "securityContext",
    "resources",
    "volumeMounts",
    "startupProbe",
    "readinessProbe",
    "livenessProbe",
}


def planned(spec: dict[str, Any]) -> Plan | None:
    world = observed(spec, reports={"orders-host-0": report(fleet=fleet(committed=4, batch=batch(5)))})
    try:
        return make_plan(world, ADMINISTRATOR)
    except SpecError as error:
        assert error.field.startswith("spec")
        return None


def names_of(node: Any, field: str) -> set[str]:
    """Names of the objects to which the fields of a name refer."""
    if isinstance(node, dict):
        own = {node[field].get("name") or node[field]["secretName"]} if node.get(field) else set()
        return own.union(*(names_of(value, field) for value in node.values()))
    return set().union(*(names_of(value, field) for value in node)) if isinstance(node, list) else set()


def inputs_of(component: str, spec: dict[str, Any]) -> dict[str, Any]:
    """What the spec lets the user code of a pod have: of other pods than Spark's, only hosts run a handler.

    A replay runs one that transforms events.
    """
    if component in SPARK_COMPONENTS:
        application: dict[str, Any] = spec["spark"].get("application", {})
        return application
    processing: dict[str, Any] = spec.get("processing", {})
    replay = component == labels.COMPONENT_REPLAY and processing.get("handlerMode") == "Transform"
    return processing if (component == labels.COMPONENT_HOST or replay) and processing.get("handler") else {}


def secrets_named(node: Any) -> set[tuple[str, str]]:
    """Names and keys of the Secrets that a spec names."""
    if isinstance(node, dict):
        names = ("connectionStringSecretRef", "credentialsSecretRef", "headerSecretRef", "basicSecretRef")
        found = {(own["name"], own["key"]) for own in map(node.get, names) if own}
        return found.union(*(secrets_named(value) for value in node.values()))
    return set()


def check_object(manifest: Manifest) -> None:
    assert manifest["kind"] in KINDS
    metadata = manifest["metadata"]
    assert metadata["namespace"] == KEY.namespace
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == [UID]
    component = metadata["labels"][labels.LABEL_COMPONENT]
    assert child_labels(KEY, component).items() <= metadata["labels"].items()


def check_pod(template: Manifest, spec: dict[str, Any], *, executor: bool = False) -> None:
    own = template["metadata"]["labels"]
    component = own[labels.LABEL_COMPONENT]
    assert child_labels(KEY, component).items() <= own.items()
    assert all(key in ("team",) or key.startswith("shop.example/") for key in own.keys() - own_keys(component))
    pod = template["spec"]
    assert pod.keys() <= POD_FIELDS
    assert pod["serviceAccountName"] == ACCOUNTS.get(component, labels.HOST_SERVICE_ACCOUNT)
    driver = component in SPARK_COMPONENTS and not executor
    creates_executors = driver and "--local" not in pod["containers"][0]["args"]
    assert pod["automountServiceAccountToken"] is creates_executors
    annotations = template["metadata"].get("annotations", {})
    assert all(key == "team" or key.startswith("shop.example/") for key in annotations.keys() - OWN_ANNOTATIONS)
    assert (labels.ANNOTATION_EXECUTOR in annotations) is creates_executors
    if creates_executors:
        check_pod(json.loads(annotations[labels.ANNOTATION_EXECUTOR]), spec, executor=True)
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod.get("priorityClassName", "drain") == "drain"
    assert all(is_place(key) for key in pod.get("nodeSelector", {}))
    assert all(is_place(toleration["key"]) for toleration in pod.get("tolerations", []))
    (container,) = pod["containers"]
    inputs = inputs_of(component, spec)
    own_volumes, user_volumes = split(pod["volumes"], lambda each: each["name"].startswith(USER_VOLUMES))
    for volume in own_volumes:
        check_volume(volume, spec)
    own_env, user_env = split(container.get("env", []), lambda each: each["name"].startswith(PREFIXES))
    check_inputs(container, user_env, user_volumes, inputs)
    if user_env or user_volumes or container.get("envFrom"):
        assert inputs["image"] in ("registry.example/spark/mine:1", "registry.example/shop/orders:1")
    for variable in container.get("env", []):
        read = expand(variable.get("value", ""), {"POD_UID": "read"})
        assert inert(read) == variable.get("value", ""), "no reference to another variable"
    limits = container["resources"]["limits"]
    assert "ephemeral-storage" in limits and (executor or "memory" in limits)  # Spark adds that of executors
    on_node = [volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if "emptyDir" in volume]
    assert sum(map(amount, on_node)) == amount(limits["ephemeral-storage"])
    assert container.keys() <= CONTAINER_FIELDS
    spark = component in SPARK_COMPONENTS
    allowed = {"spark:1", "registry.example/spark/mine:1"} if spark else {"host:1", "registry.example/shop/orders:1"}
    assert "image" not in container if executor else container["image"] in allowed
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for variable in own_env:
        assert variable.get("valueFrom", {"fieldRef": ""}).keys() == {"fieldRef"}
    assert {variable["name"] for variable in own_env} <= {
        "POD_NAME",
        "POD_UID",
        "POD_IP",
        "POD_NAMESPACE",
        labels.BATCH_JOB_ENV,
        labels.BATCH_MANIFEST_ENV,
        labels.CONFIG_ENV,
        "SPARK_LOCAL_DIRS",
        *(("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY") if "proxy" in spec else ()),
    }
    for mount in container["volumeMounts"]:
        assert mount.keys() <= {"name", "mountPath", "readOnly"}  # no subPath: a changed Secret would not be seen
        if mount["name"] not in {volume["name"] for volume in user_volumes}:
            assert mount["mountPath"].startswith(("/etc/eventconsumer", "/tmp", labels.SECRETS_DIR, SCRATCH_FOLDER))


def split(items: list[Any], is_users: Callable[[Any], bool]) -> tuple[list[Any], list[Any]]:
    return [each for each in items if not is_users(each)], [each for each in items if is_users(each)]


def check_inputs(
    container: dict[str, Any], env: list[dict[str, Any]], volumes: list[dict[str, Any]], inputs: dict[str, Any]
) -> None:
    """Of what a user wrote, there is what the fields for it say, in folders of its own, and nothing else."""
    assert [each["name"] for each in env] == [each["name"] for each in inputs.get("env") or []]
    for variable in env:
        assert variable.keys() <= {"name", "value", "valueFrom"}
        assert (variable.get("valueFrom") or {}).keys() <= {"configMapKeyRef", "secretKeyRef"}
    sources = container.get("envFrom", [])
    assert len(sources) == len(inputs.get("envFrom") or [])
    for source in sources:
        assert source.keys() <= {"prefix", "configMapRef", "secretRef"} and source["prefix"].startswith(PREFIXES)
    for kind in ("configMap", "secret"):
        given = {each[kind].get("name") or each[kind]["secretName"] for each in volumes if kind in each}
        assert given <= names_of(inputs.get("volumes") or [], kind)
    for volume in volumes:
        assert volume.keys() in ({"name", "configMap"}, {"name", "secret"})
    names = {volume["name"] for volume in volumes}
    for mount in container["volumeMounts"]:
        if mount["name"] in names:
            assert re.fullmatch(r"/(config|secrets|mnt)/[a-z0-9-]+", mount["mountPath"]) and mount["readOnly"]


def is_place(key: str) -> bool:
    return key == "pool" or key.startswith("shop.example/")


def own_keys(component: str) -> set[str]:
    return {*child_labels(KEY, component), labels.LABEL_BATCH, labels.LABEL_ATTEMPT, "azure.workload.identity/use"}


def check_volume(volume: dict[str, Any], spec: dict[str, Any]) -> None:
    (kind,) = volume.keys() - {"name"}
    if kind == "configMap":
        assert volume[kind] == {"name": "orders-host"}
    elif kind == "secret":
        (item,) = volume[kind]["items"]
        assert (volume[kind]["secretName"], item["key"]) in secrets_named(spec)
        assert item["path"] == "connection-string"
    elif kind == "downwardAPI":
        (item,) = volume[kind]["items"]
        assert item["fieldRef"] == {"fieldPath": f"metadata.annotations['{labels.ANNOTATION_EXECUTOR}']"}
    elif kind == "ephemeral":
        assert volume["name"] == SCRATCH_VOLUME
        assert volume[kind]["volumeClaimTemplate"]["spec"]["storageClassName"] == "fast"
    else:
        assert volume["name"] in {"tmp", SCRATCH_VOLUME} and volume["emptyDir"].keys() == {"sizeLimit"}


JAVA_OPTION = re.compile(
    r"-XX:TieredStopAtLevel=1|-XX:\+UseSerialGC|-XX:ReservedCodeCacheSize=128m|-XX:(Min|Max)HeapFreeRatio=\d+"
    r"|-Dhttps?\.(proxyHost|proxyPort|nonProxyHosts)=\S+",
    re.ASCII,
)


def check_driver(container: dict[str, Any]) -> None:
    """Configuration of Spark comes from us, and what the user wrote stands behind the program's name."""
    arguments = container["args"]
    if arguments[1] == "--local":
        arguments = [arguments[0], *arguments[3:]]
    program = next(index for index, text in enumerate(arguments) if index and not text.startswith(("--conf", "spark.")))
    assert arguments[program].startswith("local:///app/")
    assert ".." not in arguments[program].split("/")
    pairs = arguments[1:program]
    assert pairs[::2] == ["--conf"] * (len(pairs) // 2)
    values = dict(text.split("=", 1) for text in pairs[1::2])
    java = (values.pop(f"spark.{role}.extraJavaOptions", "") for role in ("driver", "executor"))
    assert all(JAVA_OPTION.fullmatch(option) for options in java for option in options.split())
    allowed = (
        "spark.dynamicAllocation.",
        "spark.hadoop.fs.azure.networking.library",
        "spark.sql.shuffle.partitions",
        "spark.default.parallelism",
        "spark.driver.memory",
        "spark.executor.",
        "spark.kubernetes.executor.",
        "spark.kubernetes.container.image",
    )
    assert all(name.startswith(allowed) for name in values)
    assert not any("$" in value for value in values.values())


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(spec=ANY)
def test_no_spec_gives_a_pod_that_may_do_more(spec: dict[str, Any]) -> None:
    check_plan(spec)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(spec=ANY)
@example(spec={"processing": {"env": [{"name": "PYTHONPATH", "value": "/config/mine"}]}})
@example(spec={"processing": {"env": [{"name": "APP_MODE", "value": "$$(POD_UID) $$"}]}})
@example(spec={"processing": {"env": [{"name": "APP_MODE", "value": "$$"}]}})
@example(spec={"processing": {"envFrom": [{"prefix": "LD_", "configMapRef": {"name": "mine"}}]}})
@example(spec={"processing": {"volumes": [{"mountPath": "/mnt/a"}]}})
def test_no_inputs_of_a_handler_give_a_pod_that_may_do_more(spec: dict[str, Any]) -> None:
    """The same with a handler each time, which few of the specs have."""
    given = {name: value for name, value in spec.get("processing", {}).items() if name in {"env", "envFrom", "volumes"}}
    check_plan(SPEC | {"processing": HANDLER | {field: [] for field in INPUTS} | given})


def check_plan(spec: dict[str, Any]) -> None:
    plan = planned(spec)
    if plan is None:
        return
    manifests = (*plan.applied, *plan.jobs)
    templates = [each["spec"]["template"] for each in manifests if each["kind"] in {"StatefulSet", "Job"}]
    assert templates
    for manifest in manifests:
        check_object(manifest)
    for template in templates:
        check_pod(template, spec)
        if template["metadata"]["labels"][labels.LABEL_COMPONENT] in SPARK_COMPONENTS:
            check_driver(template["spec"]["containers"][0])
    text = json.dumps(manifests)
    for word in ("hostPath", "hostNetwork", "hostPID", "privileged", "initContainers"):
        assert f'"{word}"' not in text


def test_the_generated_specs_reach_every_kind_of_pod() -> None:
    """Else the property above says nothing."""
    reprocess = {"name": "again", "from": 1, "to": 4}
    spark = {"spark": SPARK["spark"] | {"mode": "Executors", "reprocess": reprocess, "application": PROGRAM}}
    spec = SPEC | spark | {"replay": {"name": "again", "consumerGroup": "replay"}, "processing": HANDLER}
    plan = planned(spec)
    assert plan is not None
    templates = [each["spec"]["template"] for each in (*plan.applied, *plan.jobs) if "template" in each.get("spec", {})]
    components = {template["metadata"]["labels"][labels.LABEL_COMPONENT] for template in templates}
    assert components == {labels.COMPONENT_HOST, labels.COMPONENT_REPLAY, *SPARK_COMPONENTS}
    for template in templates:
        check_pod(template, spec)
    texts = {template["metadata"]["labels"][labels.LABEL_COMPONENT]: json.dumps(template) for template in templates}
    with_inputs = {component for component, text in texts.items() if "DB_PASSWORD" in text}
    assert with_inputs == {labels.COMPONENT_HOST, *SPARK_COMPONENTS}
    for component in with_inputs:
        # In the annotation of a driver, executors have them too.
        times = 2 if component in SPARK_COMPONENTS else 1
        assert [texts[component].count(word) for word in ("DB_PASSWORD", "envFrom", "/config/shop")] == [times] * 3


def test_our_programs_read_the_text_of_users_exactly() -> None:
    """In all variables of the operator: what Kubernetes makes of them is what the operator meant."""
    text = "$(POD_UID)$$(POD_UID)$$"
    spark = spec_with("spark.output.body", {"type": "Json", "schema": text}, SPARK)
    replay = {"name": "a", "consumerGroup": "$default"}
    spec = SPEC | spark | {"replay": replay}
    plan = planned(spec)
    assert plan is not None
    written = {
        variable["name"]: variable.get("value", "")
        for job in plan.jobs
        for variable in job["spec"]["template"]["spec"]["containers"][0]["env"]
    }

    def read(value: str) -> str:
        return expand(value, {"POD_UID": "other"})

    config, batch_job = (json.loads(read(written[name])) for name in (labels.CONFIG_ENV, labels.BATCH_JOB_ENV))
    assert config["eventHub"]["consumerGroup"] == "$default"
    assert batch_job["output"]["body"]["schema"] == text
    assert read(text) == "other$(POD_UID)$", "Kubernetes would change it"


@pytest.mark.slow
def test_many_generated_specs_give_a_plan() -> None:
    made: list[bool] = []

    @settings(max_examples=60, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(spec=ANY)
    def count(spec: dict[str, Any]) -> None:
        made.append(planned(spec) is not None)

    count()
    assert sum(made) >= 10
