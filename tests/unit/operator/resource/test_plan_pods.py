"""spec.pods: where host pods run and what they carry, and what of it the administrator must have allowed."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.quantities import canonical
from eventconsumer_api.spec.programs import OWN_ENV_WORDS
from eventconsumer_api.spec.scheduling import RESERVED_DOMAINS
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.plan.config import host_config
from eventconsumer_operator.resource.names import selector
from eventconsumer_operator.resource.pods import host_template
from eventconsumer_operator.resource.spec import parse_spec
from eventconsumer_operator.settings import Settings, parse_settings
from tests.unit.operator.worlds import KEY, SETTINGS, SPARK, SPEC, consumer, observed, spec_with

ALLOWING = replace(
    SETTINGS,
    pod_metadata_prefixes=("shop.example/", "team", "kubernetes.io/"),
    node_label_prefixes=("shop.example/", "kubernetes.io/arch", "cores", "pool", "rack"),
    taint_prefixes=("drain", "shop.example/"),
    priority_classes=("drain", "other"),
)
AFFINITY: dict[str, Any] = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {"key": "shop.example/gpu", "operator": "DoesNotExist"},
                    ]
                }
            ]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "preference": {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["7"]}]}}
        ],
    },
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {}, "topologyKey": "topology.kubernetes.io/zone"}
        ]
    },
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "podAffinityTerm": {
                    "labelSelector": {"matchLabels": {"app": "shop"}},
                    "topologyKey": "kubernetes.io/hostname",
                },
            }
        ]
    },
}


def template(pods: dict[str, Any], settings: Settings = ALLOWING) -> dict[str, Any]:
    applied = make_plan(observed(SPEC | {"pods": pods}), settings).applied
    found: dict[str, Any] = next(each for each in applied if each["kind"] == "StatefulSet")["spec"]["template"]
    return found


def test_what_the_user_wrote_reaches_the_pods_as_written() -> None:
    tolerations = [{"key": "drain", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    made = template(
        {
            "nodeSelector": {"shop.example/pool": "drain"},
            "tolerations": tolerations,
            "affinity": AFFINITY,
            "priorityClassName": "drain",
            "labels": {"shop.example/cost": "42", "team": "orders"},
            "annotations": {"shop.example/note": "a: b\n"},
        }
    )
    spec = made["spec"]
    assert spec["nodeSelector"] == {"shop.example/pool": "drain"}
    assert spec["tolerations"] == tolerations
    assert spec["affinity"] == AFFINITY
    assert spec["priorityClassName"] == "drain"
    assert {"shop.example/cost": "42", "team": "orders"}.items() <= made["metadata"]["labels"].items()
    assert made["metadata"]["annotations"]["shop.example/note"] == "a: b\n"
    assert made["metadata"]["annotations"].keys() == {"shop.example/note", labels.ANNOTATION_CONFIG_HASH}


def test_empty_lists_and_nulls_are_left_out() -> None:
    made = template(
        {
            "affinity": {
                "nodeAffinity": None,
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [],
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "podAffinityTerm": {
                                "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": []},
                                "topologyKey": "rack",
                            },
                        }
                    ],
                },
            },
            "tolerations": [{"operator": "Exists", "key": "drain", "value": None}],
        }
    )
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "rack"}
    assert made["spec"]["affinity"] == {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
        }
    }
    assert made["spec"]["tolerations"] == [{"operator": "Exists", "key": "drain"}]


def test_without_wishes_nothing_is_said_but_to_spread_over_nodes_and_zones() -> None:
    spec = template({})["spec"]
    assert not {"nodeSelector", "tolerations", "affinity", "priorityClassName"} & spec.keys()
    assert [wish["topologyKey"] for wish in spec["topologySpreadConstraints"]] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    for wish in spec["topologySpreadConstraints"]:
        assert wish["whenUnsatisfiable"] == "ScheduleAnyway"
        assert wish["labelSelector"]["matchLabels"] == selector(KEY, labels.COMPONENT_HOST)


@pytest.mark.parametrize("component", [labels.COMPONENT_PROBE, labels.COMPONENT_REPLAY])
def test_pods_of_other_components_are_built_alike(component: str) -> None:
    spec = parse_spec(SPEC | {"pods": {"nodeSelector": {"pool": "drain"}}})
    config = host_config(consumer(), spec, ALLOWING)
    made = host_template(
        KEY, spec, config, "host:1", config_map="orders-other", component=component, arguments=("other",)
    )
    assert selector(KEY, component).items() <= made["metadata"]["labels"].items()
    (container,) = made["spec"]["containers"]
    assert (container["name"], container["args"]) == (component, ["other"])
    assert made["spec"]["nodeSelector"] == {"pool": "drain"}
    host = template({})["spec"]
    for same in ("securityContext", "serviceAccountName", "automountServiceAccountToken"):
        assert made["spec"][same] == host[same]
    assert container["securityContext"] == host["containers"][0]["securityContext"]


UNITS = {"m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9)} | {
    f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGT", start=1)
}


def amount(quantity: str) -> Fraction:
    number = quantity.rstrip("mkKMGTi")
    return Fraction(number) * UNITS[quantity[len(number) :]]


@given(st.from_regex(r"(0|[1-9][0-9]{0,6})(\.[0-9]{1,2})?(m|k|Ki|M|Mi|G|Gi)?", fullmatch=True))
def test_a_quantity_is_written_another_way_and_stays_the_same(quantity: str) -> None:
    written = canonical(quantity)
    assert canonical(written) == written
    exact, smallest = amount(quantity), Fraction(1, 1000)
    assert exact <= amount(written) < exact + smallest
    assert "." not in written


def test_resources_are_written_as_the_api_server_stores_them() -> None:
    asked = {"requests": {"cpu": "0.5"}, "limits": {"memory": "1024Mi", "cpu": "2000m"}}
    container = template({"resources": asked})["spec"]["containers"][0]
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "64Mi"},
        "limits": {"memory": "1Gi", "cpu": "2", "ephemeral-storage": "1Gi"},
    }


# --- what the administrator must have allowed ------------------------------------------------------------------------


PATHS = ("spec.pods", "spec.spark.driver", "spec.spark.executor")
EACH_POD = pytest.mark.parametrize("path", PATHS)


def with_pods(path: str, pods: dict[str, Any]) -> dict[str, Any]:
    """A spec with these fields of hosts, drivers or executors."""
    return spec_with(path.removeprefix("spec."), pods, SPEC | SPARK)


def refusal(pods: dict[str, Any], settings: Settings = ALLOWING, path: str = "spec.pods") -> SpecError:
    with pytest.raises(SpecError) as caught:
        make_plan(observed(with_pods(path, pods)), settings)
    return caught.value


def test_pods_of_spark_are_not_checked_where_spark_is_not_enabled() -> None:
    spec = with_pods("spec.spark.driver", {"nodeSelector": {"other": "x"}})
    assert make_plan(observed(spec_with("spark.enabled", False, spec)), SETTINGS)


@EACH_POD
@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("key", ["other.example/x", "shop.example", "shop.example.evil/x", "teams", "team/x"])
def test_keys_that_nobody_allowed_are_refused(field: str, key: str, path: str) -> None:
    error = refusal({field: {key: "v"}}, path=path)
    assert error.field == f"{path}.{field}"
    assert f"{key} is not allowed: use shop.example/, team" in str(error)
    assert "administrator to extend podMetadataPrefixes" in str(error)


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_without_the_administrator_no_key_is_allowed(field: str) -> None:
    error = refusal({field: {"a": "b"}}, SETTINGS)
    assert "a is not allowed: ask the operator's administrator to set podMetadataPrefixes" in str(error)


RESERVED = [
    *(f"{sub}{domain}/x" for domain in RESERVED_DOMAINS for sub in ("", "any.")),
    "app.kubernetes.io/name",
    "pod-template-hash",
    "controller-revision-hash",
    "azure.workload.identity/use",
    "container.apparmor.security.beta.kubernetes.io/host",
]


@pytest.mark.parametrize("key", RESERVED)
def test_reserved_keys_are_refused_even_where_their_domain_is_allowed(key: str) -> None:
    settings = replace(SETTINGS, pod_metadata_prefixes=(key, f"{key.partition('/')[0]}/"))
    for field in ("labels", "annotations"):
        assert f"{key} is reserved" in str(refusal({field: {key: "v"}}, settings))


@given(keys=st.lists(st.sampled_from([*RESERVED, "shop.example/a", "team", "b", "other.example/c"]), max_size=4))
def test_no_label_replaces_one_of_ours(keys: list[str]) -> None:
    try:
        made = template({"labels": dict.fromkeys(keys, "stolen"), "annotations": dict.fromkeys(keys, "stolen")})
    except SpecError:
        return
    ours = template({})["metadata"]
    assert ours["labels"].items() <= made["metadata"]["labels"].items()
    assert ours["annotations"].items() <= made["metadata"]["annotations"].items()


CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
ON_CONTROL_PLANE = {"matchExpressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]}
# Fields, and values of them that name a place.
PLACEMENTS = {
    "tolerations": {"tolerations": [{"key": CONTROL_PLANE, "operator": "Exists"}]},
    "nodeSelector": {"nodeSelector": {CONTROL_PLANE: ""}},
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ON_CONTROL_PLANE]}
            }
        }
    },
    "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": ON_CONTROL_PLANE}]
            }
        }
    },
    "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}, "topologyKey": CONTROL_PLANE}]
            }
        }
    },
    "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution": {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"labelSelector": {}, "topologyKey": CONTROL_PLANE}}
                ]
            }
        }
    },
}


@EACH_POD
@pytest.mark.parametrize("field", PLACEMENTS)
def test_a_place_that_nobody_allowed_is_refused(field: str, path: str) -> None:
    setting = "taintPrefixes" if field.endswith("tolerations") else "nodeLabelPrefixes"
    for settings, remedy in ((SETTINGS, f"administrator to set {setting}"), (ALLOWING, f"to extend {setting}")):
        error = refusal(PLACEMENTS[field], settings, path)
        assert error.field == f"{path}.{field}"
        assert f"{CONTROL_PLANE} is not allowed: " in str(error) and remedy in str(error)
    allowing = replace(SETTINGS, node_label_prefixes=(CONTROL_PLANE,), taint_prefixes=("node-role.kubernetes.io/",))
    assert make_plan(observed(with_pods(path, PLACEMENTS[field])), allowing)


@EACH_POD
def test_a_toleration_of_all_taints_is_refused_whatever_is_allowed(path: str) -> None:
    every = replace(SETTINGS, taint_prefixes=("drain", "node-role.kubernetes.io/", "/"))
    error = refusal({"tolerations": [{"operator": "Exists"}]}, every, path)
    assert error.field == f"{path}.tolerations"
    assert "a toleration without a key tolerates every taint: name the key" in str(error)


@EACH_POD
def test_priority_classes_are_the_administrators_choice(path: str) -> None:
    error = refusal({"priorityClassName": "system-node-critical"}, path=path)
    assert error.field == f"{path}.priorityClassName"
    assert "system-node-critical is not allowed: use drain, other" in str(error)
    assert "priorityClasses" in str(refusal({"priorityClassName": "drain"}, SETTINGS, path))


@pytest.mark.parametrize("path", PATHS[1:])
def test_storage_classes_are_the_administrators_choice(path: str) -> None:
    def scratch(name: str) -> dict[str, Any]:
        return {"scratch": {"size": "1Gi", "storageClassName": name}}

    allowing = replace(SETTINGS, storage_classes=("cheap", "fast"))
    error = refusal(scratch("other"), allowing, path)
    assert error.field == f"{path}.scratch.storageClassName"
    assert "other is not allowed: use cheap, fast, or ask the operator's administrator" in str(error)
    assert "administrator to set storageClasses" in str(refusal(scratch("fast"), SETTINGS, path))
    assert make_plan(observed(with_pods(path, scratch("fast"))), allowing)


@pytest.mark.parametrize(
    ("pods", "field"),
    [
        ({"labels": {"Not a key!": "v"}}, "spec.pods.labels"),
        ({"nodeSelector": {"/x": "v"}}, "spec.pods.nodeSelector"),
        ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "spec.pods.resources.limits"),
        ({"hostNetwork": True}, "spec.pods.hostNetwork"),
        ({"affinity": {"podAffinity": {"namespaceSelector": {}}}}, "spec.pods.affinity.podAffinity.namespaceSelector"),
    ],
)
def test_what_the_schema_has_no_place_for_is_refused_by_the_operator_too(pods: dict[str, Any], field: str) -> None:
    assert refusal(pods).field.startswith(field)


# --- flags -----------------------------------------------------------------------------------------------------------

IMAGES = ["--processor-image", "p", "--spark-image", "s"]


def test_flags_of_the_administrator() -> None:
    settings = parse_settings(
        [
            *IMAGES,
            "--pod-metadata-prefix",
            "shop.example/",
            "--pod-metadata-prefix",
            "team",
            "--priority-class",
            "low",
            "--storage-class",
            "fast",
            "--node-label-prefix",
            "pool",
            "--taint-prefix",
            "spot",
            "--secret-name-prefix",
            "evc-",
            "--reserved-secret",
            "fleet",
            "--config-map-name-prefix",
            "app-",
            "--env-prefix",
            "SHOP_",
            "--env-prefix",
            "OTEL_",
            "--egress-cidr",
            "10.1.0.0/16",
            "--egress-cidr",
            "fd00:1::/64",
            "--egress-namespace",
            "data",
            "--hub-suffix",
            "*.Hubs.Shop.example",
            "--storage-suffix",
            "shop.example",
            "--storage-suffix",
            "other.example",
            "--proxy-suffix",
            "proxy.shop.example",
            "--notice-endpoint",
            "https://hooks.example/files/",
            "--metrics-namespace",
            "monitoring",
            "--network-policies",
            "--namespace",
            "shop",
            "--api-server-port",
            "443",
            "--api-server-port",
            "6550",
        ],
        {"POD_NAMESPACE": "operators"},
    )
    assert settings.pod_metadata_prefixes == ("shop.example/", "team")
    assert (settings.priority_classes, settings.storage_classes) == (("low",), ("fast",))
    assert (settings.node_label_prefixes, settings.taint_prefixes) == (("pool",), ("spot",))
    assert (settings.secret_name_prefixes, settings.reserved_secrets) == (("evc-",), ("fleet",))
    assert settings.config_map_name_prefixes == ("app-",)
    assert settings.env_prefixes == ("SHOP_", "OTEL_")
    assert (settings.egress_cidrs, settings.egress_namespaces) == (("10.1.0.0/16", "fd00:1::/64"), ("data",))
    assert settings.hub_suffixes == ("hubs.shop.example",)
    assert settings.storage_suffixes == ("shop.example", "other.example")
    assert settings.proxy_suffixes == ("proxy.shop.example",)
    assert settings.notice_endpoints == ("https://hooks.example/files/",)
    assert settings.metrics_namespaces == ("monitoring",)
    assert (settings.network_policies, settings.operator_namespace) == (True, "operators")
    assert settings.api_server_ports == (443, 6550)
    assert settings.namespaces == ("shop",)


def test_by_default_azures_clouds_and_nothing_else() -> None:
    settings = parse_settings([*IMAGES, "--namespace", "shop"], {})
    assert "servicebus.windows.net" in settings.hub_suffixes and "core.windows.net" in settings.storage_suffixes
    assert (
        settings.proxy_suffixes
        == settings.notice_endpoints
        == settings.pod_metadata_prefixes
        == settings.priority_classes
        == settings.storage_classes
        == settings.metrics_namespaces
        == settings.node_label_prefixes
        == settings.taint_prefixes
        == settings.egress_cidrs
        == settings.egress_namespaces
        == settings.env_prefixes
        == ()
    )
    assert settings.network_policies is False


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--namespace", "shop", "--egress-cidr", "10.1.2.3/16"], "10.1.2.3/16 has host bits set: write a range"),
        (["--namespace", "shop", "--api-server-port", "0"], "0 is not a port: write a number"),
        (["--namespace", "shop", "--api-server-port", "https"], "https is not a port: write a number"),
        (["--pod-metadata-prefix", "kubernetes.io/", "--namespace", "a"], "is reserved"),
        *((["--env-prefix", text, "--namespace", "a"], "write it like SHOP_") for text in ("", "_", "SHOP", "shop_")),
        *((["--env-prefix", f"{word}_X_", "--namespace", "a"], "use another one") for word in OWN_ENV_WORDS),
        (["--hub-suffix", "not a domain", "--namespace", "a"], "is not a domain"),
        (["--proxy-suffix", "", "--namespace", "a"], "is not a domain"),
        (
            ["--storage-suffix", "blob.core.windows.net", "--namespace", "a"],
            "write the part after it, core.windows.net",
        ),
        (["--notice-endpoint", "https://hooks.example", "--namespace", "a"], "with a path and without a query"),
        (["--notice-endpoint", "https://Hooks.example/", "--namespace", "a"], "in lower case"),
        (["--notice-endpoint", "https://a@hooks.example/", "--namespace", "a"], "is not an endpoint of notices"),
        (["--endpoint-suffix", "shop.example", "--namespace", "a"], "give --hub-suffix"),
        (["--network-policies", "--namespace", "a"], "POD_NAMESPACE"),
    ],
)
def test_a_flag_that_cannot_work_is_refused(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_settings([*IMAGES, *arguments], {})
    assert named in capsys.readouterr().err
