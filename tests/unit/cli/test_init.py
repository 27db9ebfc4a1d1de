"""init: a manifest that the models accept, checked from inside, and nothing left behind."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventconsumer_api.spec.endpoints import AZURE_STORAGE_SUFFIXES
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_cli.commands.init import ask
from eventconsumer_cli.errors import Failed
from eventconsumer_cli.init.manifest import Answers, host_config, manifest
from eventconsumer_cli.kube.kinds import CLUSTER_ROLE
from eventconsumer_cli.kube.releases import SERVES_ALL, releases_of
from eventconsumer_operator.plan.config import host_config as operators_config
from eventconsumer_operator.resource.observed import consumer_from
from eventconsumer_operator.resource.spec import parse_spec
from eventconsumer_operator.settings import Settings
from tests.unit.cli.inside import Inside, record
from tests.unit.cli.running import Shell

SECRETS = ("--hub", "orders", "--hub-secret", "orders-hub", "--storage-secret", "orders-storage/blob")
IDENTITY = (
    "--hub",
    "orders",
    "--client-id",
    "0000",
    "--hub-namespace",
    "shop.servicebus.windows.net",
    "--storage-account-url",
    "https://shop.blob.core.windows.net",
)


class Inquired(Inside):
    """A cluster with a release, whose image of hosts answers `check`."""

    def __init__(self, *, ok: bool = True) -> None:
        super().__init__(self._check)
        self.ok = ok
        self.put(CLUSTER_ROLE, record(allowInsecureEndpoints=True, hubSuffixes=["hubs.example.com"]))

    def _check(self, command: Sequence[str], stdin: bytes | None) -> tuple[int, str, str]:
        assert list(command) == ["eventconsumer", "check", "--config-json", "/dev/stdin", "--output", "json"]
        self.config = HostConfig.model_validate_json(stdin or b"")
        check = {"check": "hub-reachable", "ok": self.ok, "detail": "asked", "remedy": "open port 5671"}
        return (0 if self.ok else 2), json.dumps({"version": 1, "ok": self.ok, "checks": [check]}), ""


def test_the_manifest_is_written_after_the_check(shell: Shell, tmp_path: Path) -> None:
    cluster, file = Inquired(), tmp_path / "orders.yaml"
    seen = shell.run(cluster, "init", "orders", *SECRETS, "-f", str(file))
    assert seen.code == 0, seen
    written = yaml.safe_load(file.read_text())
    parse_spec(written["spec"])
    assert written["metadata"] == {"name": "orders", "namespace": "shop"}
    secret = written["spec"]["sink"]["authentication"]["connectionStringSecretRef"]
    assert secret == {"name": "orders-storage", "key": "blob"}
    assert cluster.config.allow_insecure_endpoints and cluster.config.event_hub.name == "orders"
    assert ("eventconsumers", "shop", "orders") not in cluster.objects, "it creates nothing"
    (pod,) = cluster.made
    assert cluster.tool_pods == [] and pod["spec"]["containers"][0]["image"] == "processor:1"
    assert pod["spec"]["serviceAccountName"] == "eventconsumer-host"
    named = (
        f"pod shop/{pod['metadata']['name']} with image processor:1 and service account eventconsumer-host is created"
    )
    assert named in seen.err
    assert cluster.config.hub_suffixes == ("hubs.example.com",)
    assert cluster.config.storage_suffixes == AZURE_STORAGE_SUFFIXES, "the record says nothing of them"
    mounted = {each["name"]: each["secret"]["secretName"] for each in pod["spec"]["volumes"] if "secret" in each}
    assert mounted == {"event-hub": "orders-hub", "checkpoint-store": "orders-storage", "sink": "orders-storage"}


def test_no_file_is_written_where_the_check_fails_or_one_exists(shell: Shell, tmp_path: Path) -> None:
    cluster, file = Inquired(ok=False), tmp_path / "orders.yaml"
    words = ("init", "orders", *SECRETS, "-f", str(file))
    seen = shell.run(cluster, *words)
    assert seen.code == 2 and not file.exists() and "open port 5671" in seen.err
    assert cluster.tool_pods == []
    assert shell.run(cluster, *words, "--no-check").code == 0
    file.write_text("mine")
    assert shell.run(Inquired(), *words).code == 2
    assert file.read_text() == "mine"


def test_identity_needs_no_secret(shell: Shell) -> None:
    cluster = Inquired()
    seen = shell.run(cluster, "init", "orders", *IDENTITY, "-f", "-")
    assert seen.code == 0, seen
    assert yaml.safe_load(seen.out)["spec"]["eventHub"]["authentication"] == {"workloadIdentity": {"clientId": "0000"}}
    (pod,) = cluster.made
    assert pod["metadata"]["labels"]["azure.workload.identity/use"] == "true"
    assert not any("secret" in volume for volume in pod["spec"]["volumes"])


@pytest.mark.parametrize(("forbidden", "code"), [(set(), 1), ({"clusterroles"}, 4)])
def test_without_a_record_the_image_must_be_named(shell: Shell, forbidden: set[str], code: int) -> None:
    cluster = Inquired()
    cluster.objects.clear()
    cluster.forbidden = forbidden
    seen = shell.run(cluster, "init", "orders", *SECRETS, "-f", "-")
    assert seen.code == code and cluster.made == []
    assert "names a release for namespace shop" in seen.err
    assert "add shop to the chart's watchNamespaces" in seen.err and "--image" in seen.err
    seen = shell.run(cluster, "init", "orders", *SECRETS, "-f", "-", "--image", "mine:1")
    (pod,) = cluster.made
    assert seen.code == 0 and pod["spec"]["containers"][0]["image"] == "mine:1"
    assert pod["spec"]["serviceAccountName"] == "eventconsumer-host"
    assert "with image mine:1 and service account eventconsumer-host" in seen.err


def test_a_release_for_all_namespaces_is_believed_alone_and_its_settings_beside_another_image(shell: Shell) -> None:
    cluster = Inquired()
    cluster.remove(CLUSTER_ROLE, "", "eventconsumer:serves:shop")
    cluster.put(CLUSTER_ROLE, record(SERVES_ALL, hostServiceAccount="default"))
    assert shell.run(cluster, "init", "orders", *SECRETS, "-f", "-").code == 0
    assert shell.run(cluster, "init", "orders", *SECRETS, "-f", "-", "--image", "mine:1").code == 0
    pods = [(pod["spec"]["containers"][0]["image"], pod["spec"]["serviceAccountName"]) for pod in cluster.made]
    assert pods == [("processor:1", "default"), ("mine:1", "default")]


def two_records(cluster: Inquired) -> None:
    cluster.put(CLUSTER_ROLE, record(SERVES_ALL, "more"))


def two_in_one(cluster: Inquired) -> None:
    own, other = record(), record(namespace="more")
    own["metadata"]["annotations"] |= other["metadata"]["annotations"]
    cluster.put(CLUSTER_ROLE, own)


def no_annotation(cluster: Inquired) -> None:
    cluster.put(CLUSTER_ROLE, {"metadata": {"name": "eventconsumer:serves:shop"}, "rules": []})


def written(**settings: object) -> Callable[[Inquired], object]:
    return lambda cluster: cluster.put(CLUSTER_ROLE, record(**settings))


def no_json(cluster: Inquired) -> None:
    made = record()
    made["metadata"]["annotations"] = dict.fromkeys(made["metadata"]["annotations"], "processor:1")
    cluster.put(CLUSTER_ROLE, made)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            two_records,
            "several releases claim namespace shop: the release in namespace operators (ClusterRole "
            "eventconsumer:serves:shop) and the release in namespace more (ClusterRole eventconsumer:serves-all)",
        ),
        (
            two_in_one,
            "several releases claim namespace shop: the release in namespace more (ClusterRole "
            "eventconsumer:serves:shop) and the release in namespace operators (ClusterRole eventconsumer:serves:shop)",
        ),
        (no_annotation, "is damaged: it has no annotation installation.eventconsumer.io/<namespace>"),
        (no_json, "is damaged: installation.eventconsumer.io/operators: Invalid JSON"),
        (written(version=2), "is damaged: installation.eventconsumer.io/operators.version: Input should be 1"),
        (written(processorImage=""), "installation.eventconsumer.io/operators.processorImage: String should have"),
        (written(hostServiceAccount=None), "installation.eventconsumer.io/operators.hostServiceAccount: Input should"),
        (written(allowInsecureEndpoints="yes"), "operators.allowInsecureEndpoints: Input should be a valid boolean"),
        (written(hubSuffixes="example.com"), "operators.hubSuffixes: Input should be a valid "),
    ],
)
def test_records_that_disagree_or_are_damaged_are_refused(
    shell: Shell, spoil: Callable[[Inquired], object], said: str
) -> None:
    cluster = Inquired()
    spoil(cluster)
    for more in ((), ("--image", "mine:1")):
        seen = shell.run(cluster, "init", "orders", *SECRETS, "-f", "-", *more)
        assert seen.code == 2 and cluster.made == [], seen
        assert said in seen.err and "ask an administrator of the cluster" in seen.err


def test_a_record_of_a_newer_chart_may_say_more(shell: Shell) -> None:
    cluster = Inquired()
    written(allowInsecureEndpoints=True, future=1)(cluster)
    assert shell.run(cluster, "init", "orders", *SECRETS, "-f", "-").code == 0


def test_the_configuration_equals_the_operator_s() -> None:
    resource = manifest(Answers("orders", "shop", "orders", hub_secret="a", storage_secret="b"))
    (release,) = releases_of(record())
    own = host_config(resource, release.settings)
    consumer = consumer_from(resource | {"metadata": resource["metadata"] | {"uid": "", "resourceVersion": "1"}})
    settings = Settings(namespaces=("shop",), processor_image="p", spark_image="s")
    theirs = operators_config(consumer, parse_spec(resource["spec"]), settings)
    assert own.model_copy(update={"drain_seconds": theirs.drain_seconds}) == theirs


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"name": "Orders"}, "is not a valid name"),
        ({"client_id": "0"}, "either Secrets or a workload identity"),
        ({"storage_secret": ""}, "specify a credential"),
        ({"hub_secret": "", "storage_secret": "", "client_id": "0"}, "--hub-namespace and --storage-account-url"),
        ({"sink_container": "No"}, "spec.sink.container"),
    ],
)
def test_answers_that_cannot_be_used(more: dict[str, str], said: str) -> None:
    good: dict[str, Any] = {"name": "orders", "namespace": "shop", "hub_secret": "a", "storage_secret": "b"}
    with pytest.raises(Failed, match=said):
        manifest(Answers(**good | more))


def test_only_missing_options_are_asked_for() -> None:
    asked: list[str] = []

    def prompt(text: str, default: str | None) -> str:
        asked.append(text)
        return default if default is not None else "orders"

    found = ask({"hub": "orders", "consumer_group": "$Default"}, prompt)
    manifest(Answers(namespace="shop", **found))
    assert found["hub_secret"] == "orders-hub" and not any("Event Hub" in text for text in asked)
    asked.clear()
    ask(found, prompt)
    assert asked == []
