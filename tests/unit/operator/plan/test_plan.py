"""The plan: children of a resource, as a pure function."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_api.v1alpha1.status import EventConsumerStatus, HubStatus
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.keys import Key
from eventconsumer_operator.plan import Plan, make_plan
from eventconsumer_operator.plan.scale import scaling_of
from eventconsumer_operator.resource.names import application_name, host_name, replay_name
from eventconsumer_operator.resource.spec import parse_spec
from eventconsumer_operator.settings import Settings
from tests.unit.operator.worlds import IDENTITY, SECRET, SETTINGS, SPEC, UID, observed, report, spec_with


def plan(spec: dict[str, Any] = SPEC, settings: Settings = SETTINGS, **world: Any) -> Plan:
    return make_plan(observed(spec, **world), settings)


def applied(of: Plan, kind: str) -> Manifest:
    return next(manifest for manifest in of.applied if manifest["kind"] == kind)


def pod_spec(of: Plan) -> dict[str, Any]:
    found: dict[str, Any] = applied(of, "StatefulSet")["spec"]["template"]["spec"]
    return found


# --- children ------------------------------------------------------------------------------------------------------


def test_the_children_in_this_order() -> None:
    made = plan()
    assert [each["kind"] for each in made.applied] == ["PodDisruptionBudget", "ConfigMap", "Service", "StatefulSet"]
    assert HostConfig.model_validate_json(applied(made, "ConfigMap")["data"]["config.json"]) == made.config
    assert (made.config.resource.uid, made.hosts) == (UID, 1)
    service = applied(made, "Service")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    hosts = applied(made, "StatefulSet")["spec"]
    assert hosts["podManagementPolicy"] == "Parallel"  # hosts start and stop together
    selector = hosts["selector"]["matchLabels"]
    assert selector.items() <= hosts["template"]["metadata"]["labels"].items()
    assert labels.LABEL_MANAGED_BY not in selector  # a selector cannot change


def test_children_carry_our_labels_and_one_controlling_owner() -> None:
    for manifest in plan().applied:
        metadata = manifest["metadata"]
        assert (metadata["namespace"], metadata["name"]) == ("shop", "orders-host")
        assert metadata["labels"] == {
            "app.kubernetes.io/name": "eventconsumer",
            "app.kubernetes.io/component": "host",
            "app.kubernetes.io/managed-by": "eventconsumer-operator",
            "eventconsumer.io/consumer": "orders",
        }
        (owner,) = metadata["ownerReferences"]
        found = tuple(owner[name] for name in ("kind", "name", "uid", "controller"))
        assert found == ("EventConsumer", "orders", UID, True)


# --- what restarts pods --------------------------------------------------------------------------------------------


def template(of: Plan) -> str:
    return json.dumps(applied(of, "StatefulSet")["spec"]["template"], sort_keys=True)


def test_hosts_run_as_the_account_that_the_administrator_names() -> None:
    assert pod_spec(plan(settings=replace(SETTINGS, host_service_account="mine")))["serviceAccountName"] == "mine"


def test_a_change_of_configuration_restarts_pods_and_of_scaling_reports_or_status_does_not() -> None:
    before = template(plan())
    body = {"type": "Json", "schema": "a DATE"}
    for path, value in (("processing.prefetchCount", 10), ("sink.roll.maxSeconds", 5), ("sink.body", body)):
        assert template(plan(spec_with(path, value))) != before
    for path, value in (("scaling", {"mode": "Fixed", "replicas": 7}), ("suspend", True)):
        assert template(plan(spec_with(path, value))) == before
    assert template(plan(reports={"orders-host-0": report()})) == before


# --- security ------------------------------------------------------------------------------------------------------


def restricted(pod: dict[str, Any]) -> None:
    """What the restricted Pod Security Standard asks of a pod, and our read-only root."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
    assert {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]} <= {"configMap", "emptyDir", "secret"}


def test_hosts_are_restricted_and_have_no_api_token() -> None:
    pod = pod_spec(plan())
    restricted(pod)
    assert pod["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == "eventconsumer-host"


def test_each_credential_is_one_key_mounted_where_the_config_says() -> None:
    spec = spec_with("sink.authentication", {"connectionStringSecretRef": {"name": "other", "key": "..weird"}})
    header = {"headerSecretRef": {"name": "hooks", "key": "token"}}
    spec = spec_with("sink.notices", {"url": "https://hooks.example/files", "authentication": header}, spec)
    of = plan(spec, replace(SETTINGS, notice_endpoints=("https://hooks.example/",)))
    pod = pod_spec(of)
    volumes = {volume["name"]: volume.get("secret") for volume in pod["volumes"]}
    assert volumes["sink"] == {
        "secretName": "other",
        "optional": True,
        "defaultMode": 0o440,
        "items": [{"key": "..weird", "path": "connection-string"}],
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    for name, credential in (
        ("event-hub", of.config.event_hub.credential),
        ("checkpoint-store", of.config.leases.location.credential),
        ("sink", of.config.sink.credential),
        ("notices", of.config.notices and of.config.notices.credential),
    ):
        assert credential and credential.connection_string_file == f"{mounts[name]}/connection-string"


def test_a_workload_identity_mounts_nothing_and_labels_the_pods() -> None:
    spec = spec_with("sink.authentication", IDENTITY)
    spec["sink"]["storageAccountUrl"] = "https://shop.blob.core.windows.net"
    of = plan(spec)
    assert "sink" not in {volume["name"] for volume in pod_spec(of)["volumes"]}
    assert of.config.sink.credential.client_id == "client"
    pod_labels = applied(of, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert pod_labels["azure.workload.identity/use"] == "true"
    assert "azure.workload.identity/use" not in applied(plan(), "StatefulSet")["spec"]["template"]["metadata"]["labels"]


def test_no_manifest_holds_a_secret_reference_as_environment() -> None:
    text = json.dumps(plan().applied)
    assert "secretKeyRef" not in text and "envFrom" not in text


# --- config --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prefix", "effective"), [("", "shop/orders"), ("a/b", "a/b"), ("a/b/", "a/b")])
def test_the_effective_prefix(prefix: str, effective: str) -> None:
    assert plan(spec_with("sink.prefix", prefix)).config.sink.prefix == effective


@pytest.mark.parametrize(("grace", "drain"), [(5, 3), (30, 27), (60, 54), (600, 540)])
def test_a_host_is_done_before_the_kubelet_kills_it(grace: int, drain: int) -> None:
    of = plan(spec_with("pods.terminationGracePeriodSeconds", grace))
    assert of.config.drain_seconds == drain
    assert pod_spec(of)["terminationGracePeriodSeconds"] == grace


def test_batches_are_planned_only_where_spark_is_enabled() -> None:
    output = {"path": "abfss://out@shop.dfs.core.windows.net/orders"}
    assert plan().config.batches is None
    assert plan(spec_with("spark", {"enabled": False, "output": output})).config.batches is None
    on = plan(spec_with("spark", {"output": output, "trigger": {"files": 3}})).config.batches
    assert on is not None and on.trigger.files == 3


def test_requests_follow_limits_that_were_given_alone() -> None:
    resources = pod_spec(plan(spec_with("pods.resources.limits", {"memory": "500Mi"})))["containers"][0]["resources"]
    assert resources == {
        "requests": {"cpu": "50m", "memory": "500Mi", "ephemeral-storage": "64Mi"},
        "limits": {"memory": "500Mi", "ephemeral-storage": "1Gi"},
    }


def test_every_container_has_limits_and_a_request_above_one_raises_it() -> None:
    limits = {"memory": "768Mi", "ephemeral-storage": "1Gi"}
    assert pod_spec(plan())["containers"][0]["resources"]["limits"] == limits
    asked = plan(spec_with("pods.resources.requests", {"memory": "1Gi", "cpu": "2"}))
    assert pod_spec(asked)["containers"][0]["resources"]["limits"] == limits | {"memory": "1Gi"}


MIB = 2**20


@pytest.mark.parametrize(
    ("buffer", "resources", "needed"),
    [
        (64 * 2**30, {}, "65736Mi"),
        (569 * MIB, {}, "769Mi"),
        (256 * MIB, {"limits": {"memory": "455Mi"}}, "456Mi"),
        (16 * MIB, {"limits": {"memory": "64Mi"}}, "216Mi"),
    ],
)
def test_a_buffer_that_does_not_fit_in_the_memory_of_a_host_is_refused(
    buffer: int, resources: dict[str, Any], needed: str
) -> None:
    spec = spec_with("pods.resources", resources, spec_with("processing.bufferBytes", buffer))
    with pytest.raises(SpecError) as refused:
        plan(spec)
    assert refused.value.field == "spec.processing.bufferBytes"
    assert f"set spec.pods.resources.limits.memory to {needed} or more, or reduce bufferBytes" in str(refused.value)
    assert plan(spec_with("pods.resources.limits.memory", needed, spec))
    assert plan(spec_with("pods.resources", {"requests": {"memory": "65Gi"}}, spec)), "a request raises the limit"


def columns(*given: dict[str, Any]) -> dict[str, Any]:
    return spec_with("sink.body", {"type": "Json", "columns": list(given)})


def schema(text: str) -> dict[str, Any]:
    return spec_with("sink.body", {"type": "Json", "schema": text})


def test_columns_of_bodies_are_in_their_shortest_text_whichever_form_has_them() -> None:
    made = columns(
        {"name": "cents", "type": "bigint", "path": "$.cents", "required": True},
        {"name": "at", "type": "ARRAY<timestamp >", "from": "Iso8601", "statistics": False},
    )
    config = plan(made).config
    assert json.loads(config.to_json())["body"] == {
        "columns": [{"name": "cents", "type": "BIGINT", "required": True}, {"name": "at", "type": "ARRAY<TIMESTAMP>"}]
    }
    assert config.digest() == plan(schema("cents BIGINT NOT NULL, at ARRAY<TIMESTAMP>")).config.digest()
    assert config.body is not None
    assert [each.path for each in config.body.parsed()] == [("cents",), ("at",)]


@pytest.mark.parametrize("body", [None, {}, {"type": "Binary"}])
def test_without_columns_the_document_of_hosts_is_as_before(body: Any) -> None:
    assert plan(spec_with("sink.body", body)).config.digest() == plan().config.digest()


# --- scale ---------------------------------------------------------------------------------------------------------


def wanted(spec: EventConsumerSpec, partitions: int | None) -> int:
    status = EventConsumerStatus(hub=HubStatus(partition_count=partitions))
    return scaling_of(observed(status=status), spec).replicas


@given(partitions=st.none() | st.integers(1, 1024), per_host=st.integers(1, 1024), suspend=st.booleans())
def test_hosts_for_partitions(partitions: int | None, per_host: int, suspend: bool) -> None:
    spec = parse_spec(SPEC | {"scaling": {"partitionsPerHost": per_host, "maxReplicas": 1024}, "suspend": suspend})
    hosts = wanted(spec, partitions)
    if suspend or partitions is None:
        assert hosts == (0 if suspend else 1)
    else:
        assert (hosts - 1) * per_host < partitions <= hosts * per_host


@given(replicas=st.integers(0, 1024), partitions=st.none() | st.integers(1, 2000))
def test_a_fixed_number_is_that_number(replicas: int, partitions: int | None) -> None:
    spec = parse_spec(SPEC | {"scaling": {"mode": "Fixed", "replicas": replicas}})
    assert wanted(spec, partitions) == replicas


def test_the_count_of_partitions_is_remembered_while_hosts_are_silent() -> None:
    status = EventConsumerStatus(hub=HubStatus(partition_count=8))
    assert plan(status=status).hosts == 8
    assert plan(status=status, reports={"a": report(partitions=None)}).hosts == 8
    assert plan(status=status, reports={"a": report(partitions=16)}).hosts == 16  # partitions were added


# --- names ---------------------------------------------------------------------------------------------------------

LETTERS = "abcxyz019"
NAMES = st.builds("{}{}{}".format, st.sampled_from("az"), st.text(f"{LETTERS}-", max_size=45), st.sampled_from(LETTERS))
REPLAYS = st.builds("{}{}".format, st.text(f"{LETTERS}-", max_size=18).map(lambda text: "0" + text), st.just("z"))
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@given(name=NAMES, uid=st.uuids(), batch=st.integers(1, 10**9), attempt=st.integers(1, 10**5), given=REPLAYS)
def test_names_of_children_are_valid_whatever_the_resource_is_called(
    name: str, uid: Any, batch: int, attempt: int, given: str
) -> None:
    key = Key("shop", name)
    pod_of_launcher = application_name(key, str(uid), batch, attempt) + "-driver-0123"
    pod = f"{host_name(key)}-1023"
    revision = f"{host_name(key)}-0123456789"  # the label controller-revision-hash
    replay = replay_name(key, str(uid), given)
    assert replay.startswith(name[:20]) and replay.endswith(f"-{str(uid)[:8]}-r-{given}")
    for text in (pod_of_launcher, pod, revision, f"{replay}-01234"):
        assert LABEL.fullmatch(text), text
        assert len(text) <= 63


ATTEMPTS = st.tuples(st.integers(1, 10**9), st.integers(1, 10**5))


@given(name=NAMES, uid=st.uuids(), other=st.uuids(), one=ATTEMPTS, two=ATTEMPTS)
def test_the_name_of_an_application_belongs_to_one_attempt_at_one_batch_of_one_resource(
    name: str, uid: Any, other: Any, one: tuple[int, int], two: tuple[int, int]
) -> None:
    key = Key("shop", name)
    assert (application_name(key, str(uid), *one) == application_name(key, str(uid), *two)) == (one == two)
    if str(uid)[:8] != str(other)[:8]:
        assert application_name(key, str(uid), *one) != application_name(key, str(other), *one)


# --- refused specs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("sink.container", "UPPER", "spec.sink.container"),
        ("colour", "blue", "spec.colour"),
        ("sink.authentication", {}, "spec.sink.authentication"),
        ("checkpointStore.authentication", SECRET | IDENTITY, "spec.checkpointStore.authentication"),
        ("scaling.partitionsPerHost", 0, "spec.scaling.partitionsPerHost"),
        ("sink.body.schema", "a STRUCT<b: DATE", "spec.sink.body"),
        ("sink.body.columns", [{"name": "a", "type": "MAP<DATE, DATE>"}], "spec.sink.body"),
    ],
)
def test_a_spec_that_does_not_fit_names_the_field(path: str, value: Any, field: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan(spec_with(path, value))
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert caught.value.reason == "SpecInvalid"


ENDPOINTS = [
    ("sink.storageAccountUrl", "http://shop.blob.core.windows.net", "spec.sink.storageAccountUrl"),
    ("sink.storageAccountUrl", "https://10.0.0.1", "spec.sink.storageAccountUrl"),
    ("checkpointStore.storageAccountUrl", "https://localhost:10000/x", "spec.checkpointStore.storageAccountUrl"),
    ("checkpointStore.storageAccountUrl", "https://a.LOCALHOST", "spec.checkpointStore.storageAccountUrl"),
    ("eventHub.fullyQualifiedNamespace", "169.254.169.254", "spec.eventHub.fullyQualifiedNamespace"),
    ("eventHub.fullyQualifiedNamespace", "localhost", "spec.eventHub.fullyQualifiedNamespace"),
]


@pytest.mark.parametrize(("path", "value", "field"), ENDPOINTS)
def test_an_endpoint_inside_is_refused_unless_the_administrator_allows_it(path: str, value: str, field: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan(spec_with(path, value))
    assert (caught.value.field, caught.value.reason) == (field, "InsecureEndpoint")
    emulators = Settings(namespaces=("shop",), processor_image="h", spark_image="s", allow_insecure_endpoints=True)
    assert plan(spec_with(path, value), emulators).config.allow_insecure_endpoints is True


def test_azure_endpoints_are_accepted() -> None:
    spec = spec_with("sink.storageAccountUrl", "https://shop.blob.core.windows.net")
    spec["eventHub"]["fullyQualifiedNamespace"] = "shop.servicebus.windows.net"
    assert plan(spec).config.allow_insecure_endpoints is False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PATHS = [
    "eventHub",
    "eventHub.name",
    "eventHub.authentication",
    "checkpointStore.container",
    "checkpointStore.leaseDurationSeconds",
    "sink",
    "sink.prefix",
    "sink.storageAccountUrl",
    "sink.roll",
    "sink.roll.maxBytes",
    "sink.body",
    "sink.body.columns",
    "sink.body.schema",
    "scaling",
    "scaling.mode",
    "scaling.replicas",
    "spark",
    "spark.output",
    "pods",
    "pods.resources",
    "pods.resources.limits",
    "suspend",
    "new",
]


@given(path=st.sampled_from(PATHS), value=JSON)
def test_any_value_of_a_field_gives_a_plan_or_an_error_that_names_the_field(path: str, value: Any) -> None:
    try:
        made = plan(spec_with(path, value))
    except SpecError as error:
        assert error.field.startswith("spec.")
    else:
        json.dumps(made.applied, allow_nan=False)


# --- the image of hosts ----------------------------------------------------------------------------------------------

WITH_HANDLER = SPEC | {"processing": {"handler": "shop.orders:Enricher", "image": "registry.example/shop/orders:1"}}


@pytest.mark.parametrize("prefix", ["registry.example/shop/", "registry.example/shop", "registry.example/shop/orders"])
def test_an_image_with_a_handler_runs_where_the_administrator_allows_its_prefix(prefix: str) -> None:
    allowed = plan(WITH_HANDLER, replace(SETTINGS, handler_image_prefixes=("other/", prefix)))
    assert pod_spec(allowed)["containers"][0]["image"] == "registry.example/shop/orders:1"
    assert allowed.config.processing.handler == "shop.orders:Enricher"


@pytest.mark.parametrize("prefixes", [(), ("registry.example/sho",), ("evil/",), ("registry.example/shop/orders:2",)])
def test_other_images_are_refused_with_the_field_and_the_remedy(prefixes: tuple[str, ...]) -> None:
    with pytest.raises(SpecError, match=r"spec\.processing\.image: .*allowed"):
        plan(WITH_HANDLER, replace(SETTINGS, handler_image_prefixes=prefixes))
