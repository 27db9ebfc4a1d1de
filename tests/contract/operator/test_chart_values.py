"""Each value of the chart: that it changes what it should, is checked by the schema, and is documented."""

import base64
import importlib.util
import json
import subprocess
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from eventconsumer_api.kube.labels import COMPONENT_HOST, LABEL_CONSUMER
from eventconsumer_api.spec.endpoints import AZURE_HUB_SUFFIXES, AZURE_STORAGE_SUFFIXES
from eventconsumer_api.spec.programs import ENV_PREFIX_PATTERN, OWN_ENV_WORDS
from eventconsumer_cli.kube.releases import SERVES, SERVES_ALL, releases_of
from eventconsumer_operator.fleet.key import FleetKey
from eventconsumer_operator.keys import Key
from eventconsumer_operator.resource.names import child_labels
from eventconsumer_operator.settings import API_SERVER_PORTS, Settings, parse_settings
from tests.contract.operator.conftest import Cluster
from tests.contract.operator.test_chart import CHART, of_kind, render
from tests.support.apiserver import find_binary
from tests.support.chart import VALUES_FILE

ROOT = CHART.parents[1]
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
REQUIRED: dict[str, Any] = yaml.safe_load(VALUES_FILE.read_text())


def generator() -> ModuleType:
    """helm/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("generate", CHART.parent / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def one(kind: str, name: str, *settings: str) -> dict[str, Any]:
    """The object of a kind and name in what the chart renders with these `--set`."""
    flags = [part for setting in settings for part in ("--set-json", setting)]
    (found,) = [item for item in of_kind(render(*flags), kind) if item["metadata"]["name"] == name]
    return found


def count(kind: str, *settings: str) -> int:
    flags = [part for setting in settings for part in ("--set-json", setting)]
    return len(of_kind(render(*flags), kind))


def pod(*settings: str) -> dict[str, Any]:
    """The operator's pod template."""
    found: dict[str, Any] = one("Deployment", "eventconsumer-operator", *settings)["spec"]["template"]
    return found


def container(*settings: str) -> dict[str, Any]:
    (found,) = pod(*settings)["spec"]["containers"]
    return dict(found)


def settings_of(*settings: str) -> Settings:
    """What the operator makes of its arguments."""
    return parse_settings(container(*settings)["args"], {"POD_NAMESPACE": "home"})


def test_the_operator_understands_its_arguments_and_takes_each_value() -> None:
    default = settings_of()
    given = settings_of(
        'image.processor="registry.example.com/host:2"',
        'image.spark="registry.example.com/spark:2"',
        'watchNamespaces=["a","b"]',
        "resyncSeconds=33",
        'logLevel="DEBUG"',
        'handlerImagePrefixes=["one/","two/"]',
        'sparkImagePrefixes=["three/"]',
        'sparkLaunchers=["Kubeflow","Apache"]',
        "allowInsecureEndpoints=true",
        'secretNamePrefixes=["eventconsumer-"]',
        'configMapNamePrefixes=["shop-"]',
        'envPrefixes=["SHOP_"]',
        'egressCidrs=["10.1.0.0/16","fd00::/8"]',
        'egressNamespaces=["data"]',
        'fleetKey.existingSecret="mine"',
        'imagePullSecrets=[{"name":"registry"}]',
        'podMetadataPrefixes=["shop.example/"]',
        'nodeLabelPrefixes=["agentpool","shop.example/"]',
        'taintPrefixes=["spot"]',
        'priorityClasses=["high"]',
        'storageClasses=["fast"]',
        'hubSuffixes=["hubs.example.com"]',
        'storageSuffixes=["example.com"]',
        'proxySuffixes=["proxy.example.com"]',
        'noticeEndpoints=["https://hooks.example.com/files/"]',
        'schemaRegistries=["https://shop.servicebus.windows.net"]',
        'networkPolicies.metricsNamespaces=["monitoring"]',
        "networkPolicies.apiServerPorts=[6550]",
    )
    expected: dict[str, tuple[Any, Any]] = {
        "namespaces": (("shop",), ("a", "b")),
        "secret_name_prefixes": ((), ("eventconsumer-",)),
        "config_map_name_prefixes": ((), ("shop-",)),
        "env_prefixes": ((), ("SHOP_",)),
        "egress_cidrs": ((), ("10.1.0.0/16", "fd00::/8")),
        "egress_namespaces": ((), ("data",)),
        "reserved_secrets": (("eventconsumer-fleet-key",), ("mine", "registry")),
        "processor_image": (REQUIRED["image"]["processor"], "registry.example.com/host:2"),
        "spark_image": (REQUIRED["image"]["spark"], "registry.example.com/spark:2"),
        "resync_seconds": (VALUES["resyncSeconds"], 33),
        "log_level": ("INFO", "DEBUG"),
        "handler_image_prefixes": ((), ("one/", "two/")),
        "spark_image_prefixes": ((), ("three/",)),
        "spark_launchers": ((), ("Kubeflow", "Apache")),
        "allow_insecure_endpoints": (False, True),
        "pod_metadata_prefixes": ((), ("shop.example/",)),
        "node_label_prefixes": ((), ("agentpool", "shop.example/")),
        "taint_prefixes": ((), ("spot",)),
        "priority_classes": ((), ("high",)),
        "storage_classes": ((), ("fast",)),
        "hub_suffixes": (AZURE_HUB_SUFFIXES, ("hubs.example.com",)),
        "storage_suffixes": (AZURE_STORAGE_SUFFIXES, ("example.com",)),
        "proxy_suffixes": ((), ("proxy.example.com",)),
        "notice_endpoints": ((), ("https://hooks.example.com/files/",)),
        "schema_registries": ((), ("https://shop.servicebus.windows.net",)),
        "metrics_namespaces": ((), ("monitoring",)),
        "api_server_ports": (API_SERVER_PORTS, (6550,)),
        "network_policies": (True, True),
    }
    for name, values in expected.items():
        assert (getattr(default, name), getattr(given, name)) == values, name
    assert not settings_of("networkPolicies.enabled=false").network_policies


def test_the_operators_pod() -> None:
    placed = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "imagePullSecrets": [{"name": "registry"}],
    }
    limits = {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}
    given = [f"{name}={json.dumps(value)}" for name, value in (placed | {"resources": limits}).items()]
    assert not placed.keys() & pod()["spec"].keys()
    made = pod(*given, 'image.operator="registry.example.com/operator:2"', 'image.pullPolicy="Always"')["spec"]
    assert {name: made[name] for name in placed} == placed
    (container,) = made["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("registry.example.com/operator:2", "Always")
    assert container["resources"]["limits"]["memory"] == "1Gi"


@pytest.mark.parametrize("account", ["host", "spark"])
def test_service_accounts(account: str) -> None:
    name = f"eventconsumer-{account}"
    assert "annotations" not in one("ServiceAccount", name)["metadata"]
    given = (f'{account}ServiceAccount.annotations={{"a/b":"c"}}', 'imagePullSecrets=[{"name":"registry"}]')
    made = one("ServiceAccount", name, *given)
    assert made["metadata"]["annotations"] == {"a/b": "c"}
    assert made["imagePullSecrets"] == [{"name": "registry"}]
    assert count("ServiceAccount") - count("ServiceAccount", 'hostServiceAccount.name="mine"') == 1


def test_two_operators_elect_a_leader_and_outlive_a_drain() -> None:
    alone = one("Deployment", "eventconsumer-operator")["spec"]
    assert (alone["replicas"], alone["strategy"]) == (1, {"type": "Recreate"})
    assert not settings_of().leader_elect
    assert count("PodDisruptionBudget") == 0
    two = one("Deployment", "eventconsumer-operator", "replicaCount=2")["spec"]
    assert (two["replicas"], two["strategy"]["type"]) == (2, "RollingUpdate")
    assert settings_of("replicaCount=2").leader_elect
    budget = one("PodDisruptionBudget", "eventconsumer-operator", "replicaCount=2")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= two["template"]["metadata"]["labels"].items()


def test_cluster_scope_has_cluster_roles_and_makes_no_accounts_elsewhere() -> None:
    scope = 'scope="Cluster"'
    assert settings_of(scope).namespaces == ("",)
    assert settings_of(scope).host_service_account == "default"
    for settings in ((scope, 'hostServiceAccount.name="mine"'), ('hostServiceAccount.name="mine"',)):
        assert settings_of(*settings).host_service_account == "mine"
    rules = {role["metadata"]["name"]: role["rules"] for role in of_kind(render(), "Role")}
    everywhere = one("ClusterRole", "eventconsumer-operator", scope)
    assert everywhere["rules"] == rules["eventconsumer-operator"], "the same rights, in more places"
    documents = render("--set", "scope=Cluster,metrics.podMonitor.enabled=true")
    binding, readers = of_kind(documents, "ClusterRoleBinding")
    assert binding["metadata"]["name"] == "eventconsumer-operator" and binding["subjects"][0]["namespace"] == "home"
    assert readers["metadata"]["name"] == readers["roleRef"]["name"] == "eventconsumer:serves-all"
    assert not of_kind(documents, "Role") and not of_kind(documents, "RoleBinding")
    assert [each["metadata"]["name"] for each in of_kind(documents, "ServiceAccount")] == ["eventconsumer-operator"]
    (monitor,) = of_kind(documents, "PodMonitor")
    assert monitor["spec"]["namespaceSelector"] == {"any": True}


@pytest.mark.parametrize(
    "choice",
    [
        (),
        ("allowInsecureEndpoints=true", 'hostServiceAccount.name="mine"'),
        ('hubSuffixes=["*.Hubs.example.com"]', 'storageSuffixes=["example.com"]'),
        ('schemaRegistries=["https://registry.example.com/a"]',),
        ('scope="Cluster"',),
    ],
)
def test_the_record_matches_the_arguments_of_the_operator(choice: tuple[str, ...]) -> None:
    told = settings_of(*choice)
    served = [f"eventconsumer:serves:{each}" if each else "eventconsumer:serves-all" for each in told.namespaces]
    for name in served:
        (release,) = releases_of(one("ClusterRole", name, *choice))
        assert (release.namespace, release.version) == ("home", version("eventconsumer-cli"))
        said = release.settings
        assert said.processor_image == told.processor_image
        assert said.host_service_account == told.host_service_account
        assert said.allow_insecure_endpoints == told.allow_insecure_endpoints
        assert (said.hub_suffixes or AZURE_HUB_SUFFIXES) == told.hub_suffixes
        assert (said.storage_suffixes or AZURE_STORAGE_SUFFIXES) == told.storage_suffixes
        assert said.schema_registries == told.schema_registries


def test_readers_of_the_record_are_the_administrators_choice() -> None:
    binding = one("ClusterRoleBinding", "eventconsumer:serves:shop", 'recordReaders=["developers"]')
    assert [(each["kind"], each["name"]) for each in binding["subjects"]] == [("Group", "developers")]
    assert count("ClusterRoleBinding", "recordReaders=[]") == 0


def test_the_fleets_key() -> None:
    def mounted(*settings: str) -> str:
        volumes = {each["name"]: each for each in pod(*settings)["spec"]["volumes"]}
        file = settings_of(*settings).fleet_key_file
        assert ("fleet-key" in volumes) == (file is not None)
        if file is None:
            return ""
        (mount,) = [each for each in container(*settings)["volumeMounts"] if each["name"] == "fleet-key"]
        assert str(file) == f"{mount['mountPath']}/key.pem"
        return str(volumes["fleet-key"]["secret"]["secretName"])

    secret = one("Secret", mounted())
    private = load_pem_private_key(base64.b64decode(secret["data"]["key.pem"]), password=None)
    assert isinstance(private, Ed25519PrivateKey)
    made = FleetKey(private)
    assert made.public_pem.startswith("-----BEGIN PUBLIC KEY-----")
    assert mounted("fleetKey.create=false") == ""
    assert mounted('fleetKey.existingSecret="mine"') == "mine"
    assert count("Secret", "fleetKey.create=false") == count("Secret", 'fleetKey.existingSecret="mine"') == 0


def test_roles_for_people() -> None:
    assert count("ClusterRole", "userRoles.enabled=false") == 1, "the record"
    viewer, editor = one("ClusterRole", "eventconsumer-viewer"), one("ClusterRole", "eventconsumer-editor")
    verbs = {verb for rule in viewer["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert {name for name in viewer["metadata"]["labels"] if name.startswith(prefix)} == {
        prefix + role for role in ("view", "edit", "admin")
    }
    assert prefix + "view" not in editor["metadata"]["labels"]
    written = [rule["resources"] for rule in editor["rules"] if "patch" in rule["verbs"]]
    assert written == [["eventconsumers"], ["eventconsumers/scale"]], "the status is the operator's"
    # Whoever may start programs in host pods can read their Secrets: that is a role of its own.
    asked = {resource for role in (viewer, editor) for rule in role["rules"] for resource in rule["resources"]}
    assert not asked & {"pods/exec", "pods/proxy", "pods/portforward", "secrets"}
    tools = one("ClusterRole", "eventconsumer-tools")
    assert {name for name in tools["metadata"]["labels"] if name.startswith(prefix)} == {
        prefix + role for role in ("edit", "admin")
    }


def test_network_policy() -> None:
    assert count("NetworkPolicy", "networkPolicies.enabled=false") == 0
    policy = one("NetworkPolicy", "eventconsumer-operator")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["ingress"] == [], "no rule: nobody may connect"
    named = one("NetworkPolicy", "eventconsumer-operator", 'networkPolicies.metricsNamespaces=["monitoring"]')
    (rule,) = named["spec"]["ingress"]
    assert rule["ports"] == [{"port": 8081, "protocol": "TCP"}]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    ports = one("NetworkPolicy", "eventconsumer-operator", "networkPolicies.apiServerPorts=[16443]")
    opened = [sorted(port["port"] for port in rule["ports"]) for rule in ports["spec"]["egress"]]
    assert opened == [[53, 53], [16443], [8080]]


def test_service_monitor_finds_its_service_and_the_service_the_pod() -> None:
    on = "metrics.serviceMonitor.enabled=true"
    monitor = one("ServiceMonitor", "eventconsumer-operator", on, 'metrics.serviceMonitor.labels={"release":"p"}')
    service = one("Service", "eventconsumer-operator-metrics", on, 'metrics.service.annotations={"a":"b"}')
    assert monitor["metadata"]["labels"]["release"] == "p"
    assert service["metadata"]["annotations"] == {"a": "b"}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= pod()["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert service["spec"]["ports"][0]["targetPort"] in [port["name"] for port in container()["ports"]]
    slower = one("ServiceMonitor", "eventconsumer-operator", on, 'metrics.serviceMonitor.interval="1m"')
    assert (endpoint["interval"], slower["spec"]["endpoints"][0]["interval"]) == ("30s", "1m")
    assert count("Service", "metrics.service.enabled=true") == 1
    assert count("ServiceMonitor", "metrics.service.enabled=true") == 0


def test_the_status_page_is_off_by_default_and_only_a_port_forward_reaches_it() -> None:
    assert settings_of().status_page_port is None
    assert [port["name"] for port in container()["ports"]] == ["http", "probes"]
    assert count("Service") == 0
    on = "statusPage.enabled=true"
    assert settings_of(on).status_page_port == 8082
    (port,) = [port for port in container(on)["ports"] if port["name"] == "page"]
    assert port["containerPort"] == settings_of(on).status_page_port
    service = one("Service", "eventconsumer-operator-page", on)["spec"]
    assert service["ports"] == [{"name": "http", "port": 8082, "targetPort": "page", "protocol": "TCP"}]
    assert service["selector"].items() <= pod(on)["metadata"]["labels"].items()
    closed = one("NetworkPolicy", "eventconsumer-operator", on)["spec"]["ingress"]
    assert closed == []
    opened = one("NetworkPolicy", "eventconsumer-operator", on, 'statusPage.namespaces=["web"]')["spec"]["ingress"]
    (rule,) = opened
    assert rule == {
        "ports": [{"port": 8082, "protocol": "TCP"}],
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "web"}}}],
    }
    ignored = one("NetworkPolicy", "eventconsumer-operator", 'statusPage.namespaces=["web"]')["spec"]["ingress"]
    assert settings_of(on, 'statusPage.hosts=["page.example.com"]').status_page_hosts == ("page.example.com",)
    assert ignored == closed, "what is not served needs no way in"


def test_pod_monitor_looks_where_hosts_are() -> None:
    on = "metrics.podMonitor.enabled=true"
    default = one("PodMonitor", "eventconsumer-hosts", on)["spec"]
    assert default["namespaceSelector"] == {"matchNames": ["shop"]}
    labels = child_labels(Key("shop", "orders"), COMPONENT_HOST)
    assert default["selector"]["matchLabels"].items() <= labels.items()
    (choice,) = default["selector"]["matchExpressions"]
    assert labels[choice["key"]] in choice["values"]
    assert default["podTargetLabels"] == [LABEL_CONSUMER] and LABEL_CONSUMER in labels
    monitor = one(
        "PodMonitor",
        "eventconsumer-hosts",
        on,
        'watchNamespaces=["a","b"]',
        'metrics.podMonitor.interval="2m"',
        'metrics.podMonitor.labels={"release":"p"}',
    )
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}
    assert monitor["spec"]["podMetricsEndpoints"][0]["interval"] == "2m"
    assert monitor["metadata"]["labels"]["release"] == "p"


def test_rules_and_dashboard_are_the_files() -> None:
    kinds = {"Service", "ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"}
    assert not kinds & {item["kind"] for item in render()}, "monitoring is off unless it is enabled"
    on = "metrics.rules.enabled=true"
    rule = one("PrometheusRule", "eventconsumer", on, 'metrics.rules.labels={"release":"p"}')
    assert rule["spec"] == yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "p"
    linked = one("PrometheusRule", "eventconsumer", on, 'metrics.rules.runbookUrl="https://wiki.example/evc/%s.html"')
    rules = [each for group in linked["spec"]["groups"] for each in group["rules"]]
    assert len(rules) > 10
    for each in rules:
        assert each["annotations"]["runbook_url"] == f"https://wiki.example/evc/{each['alert'].lower()}.html"
    dashboard = ("metrics.dashboard.enabled=true", 'metrics.dashboard.labels={"x":"y"}')
    for settings, label in ((dashboard[:1], ("grafana_dashboard", "1")), (dashboard, ("x", "y"))):
        board = one("ConfigMap", "eventconsumer-dashboard", *settings)
        found = json.loads(board["data"]["eventconsumer.json"])
        assert found == json.loads((CHART / "files/dashboard.json").read_text())
        assert label in board["metadata"]["labels"].items()


def leaves(node: Any, path: str = "") -> dict[str, Any]:
    """Every value that is no object with keys, by its dotted path."""
    if isinstance(node, dict) and node:
        return {name: leaf for key, value in node.items() for name, leaf in leaves(value, f"{path}.{key}").items()}
    return {path[1:]: node}


def test_every_value_is_in_the_schema_and_every_property_of_the_schema_is_a_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def properties(node: dict[str, Any], path: str) -> set[str]:
        found = set()
        for name, written in node.get("properties", {}).items():
            value = schema["definitions"][written["$ref"].rpartition("/")[2]] if "$ref" in written else written
            assert value.get("type") != "object" or "additionalProperties" in value or name in {"global", "affinity"}
            found |= properties(value, f"{path}.{name}") or {f"{path}.{name}"}
        return found

    # The chart refuses the last one with the remedy, which the schema could not name.
    known = {path[1:] for path in properties(schema, "")} - {"global", "endpointSuffixes"}
    free = ("resources.", "metrics.dashboard.labels")  # maps with names of the user's choice
    values = {path for path in leaves(VALUES) if not path.startswith(free)}
    assert {path for path in known if not path.startswith(free)} == values


def test_prefixes_of_variables_have_the_form_that_the_operator_accepts() -> None:
    form = json.loads((CHART / "values.schema.json").read_text())["properties"]["envPrefixes"]["items"]
    assert form["pattern"] == ENV_PREFIX_PATTERN
    assert form["not"]["pattern"] == f"^({'|'.join(OWN_ENV_WORDS)})_"


def test_generated_files_equal_the_rendered_chart() -> None:
    generate = generator()
    assert (CHART / "README.md").read_text() == generate.readme(), "run helm/generate.py"
    for path, text in generate.bases(find_binary("helm")).items():
        assert (ROOT / "kustomize" / path).read_text() == text, f"{path} drifted: run helm/generate.py"


def test_every_value_is_described() -> None:
    generate = generator()
    described = {path for path, _ in generate.descriptions((CHART / "values.yaml").read_text())}
    assert not [
        leaf for leaf in leaves(VALUES) if not any(leaf == path or leaf.startswith(f"{path}.") for path in described)
    ]
    with pytest.raises(generate.ValuesError, match=r"a\.c"):
        list(generate.descriptions("a:\n  # Yes.\n  b: 1\n  c: 2\n"))


@pytest.mark.parametrize("overlay", sorted(path.name for path in (ROOT / "kustomize/overlays").iterdir()))
def test_overlays_build_and_the_api_server_accepts_them(overlay: str, cluster: Cluster, tmp_path: Path) -> None:
    built = subprocess.run(
        [find_binary("kubectl"), "kustomize", ROOT / "kustomize/overlays" / overlay],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    documents = [item for item in yaml.safe_load_all(built) if item]
    assert of_kind(documents, "CustomResourceDefinition") == [
        yaml.safe_load((ROOT / "crds/eventconsumers.yaml").read_text())
    ]
    (deployment,) = of_kind(documents, "Deployment")
    namespace = deployment["metadata"]["namespace"]
    assert namespace != "eventconsumer-system", "the overlay moves the operator"
    (subject,) = [
        binding["subjects"][0]
        for binding in documents
        if binding["kind"].endswith("RoleBinding") and binding["metadata"]["name"] == "eventconsumer-operator"
    ]
    assert subject["namespace"] == namespace
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    settings = parse_settings(arguments, {"POD_NAMESPACE": namespace})
    assert settings.processor_image.startswith("registry.example.com/")
    assert namespace not in settings.namespaces, "a driver in its namespace could create pods with its account"
    roles = {each["metadata"]["namespace"] for each in of_kind(documents, "Role")}
    assert roles == set(settings.namespaces) - {""}
    records = [each for each in of_kind(documents, "ClusterRole") if ":" in each["metadata"]["name"]]
    names = [SERVES + each if each else SERVES_ALL for each in settings.namespaces]
    assert [each["metadata"]["name"] for each in records] == names
    assert {each["resourceNames"][0] for record in records for each in record["rules"]} == set(names)
    bindings = {each["metadata"]["name"]: each["roleRef"]["name"] for each in of_kind(documents, "ClusterRoleBinding")}
    assert {name: bindings[name] for name in names} == {name: name for name in names}
    for record in records:
        (release,) = releases_of(record)
        assert release.namespace == namespace
        assert release.settings.processor_image == settings.processor_image
        assert release.settings.host_service_account == settings.host_service_account
    for place in {namespace, *roles}:
        labels = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(labels))
    cluster.kubectl("apply", "--dry-run=server", "--server-side", "--force-conflicts", "-f", "-", stdin=built)
