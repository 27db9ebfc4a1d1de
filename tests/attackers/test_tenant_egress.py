"""Attacks of a tenant whose code runs in a host or in Spark: connections to services of nodes, and into the network.

The policies are the planned ones. The network plugin of the local cluster enforces none: so `reach` evaluates them.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from typing import Any

import pytest

from eventconsumer_api.kube import labels
from eventconsumer_api.spec.spark import Launcher
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import Plan, egress, make_plan
from eventconsumer_operator.resource.names import child_labels
from eventconsumer_operator.settings import Settings
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.attackers.reach import Target, lets_out
from tests.unit.operator.worlds import KEY, SETTINGS, SPARK, SPEC, batch, fleet, observed, report, spec_with

CHART = replace(
    SETTINGS,
    network_policies=True,
    operator_namespace="operators",
    spark_launchers=(Launcher.KUBEFLOW, Launcher.APACHE),
    handler_image_prefixes=("registry.example/",),
    spark_image_prefixes=("registry.example/",),
    proxy_suffixes=("proxy.example",),
)
GENEROUS = replace(CHART, egress_cidrs=("0.0.0.0/0", "::/0"))
OWN_PROGRAM = spec_with(
    "spark.mode", "Executors", spec_with("spark.application.image", "registry.example/mine:1", SPEC | SPARK)
)
# Metadata services: addresses and ports. The sources are those of plan/egress.py.
SERVICES = {
    "Azure, AWS, Google Cloud": ("169.254.169.254", 80),
    "Azure's platform": ("168.63.129.16", 80),
    "Azure's keys of extensions": ("168.63.129.16", 32526),
    "credentials of AWS's tasks": ("169.254.170.2", 80),
    "credentials of AWS's pods": ("169.254.170.23", 80),
    "AWS with IPv6": ("fd00:ec2::254", 80),
    "AWS's pods with IPv6": ("fd00:ec2::23", 80),
    "Google Cloud with IPv6": ("fd20:ce::254", 80),
    "OpenStack with IPv6": ("fe80::a9fe:a9fe", 80),
    "Oracle Cloud, first generation": ("192.0.0.192", 80),
    "Oracle Cloud with IPv6": ("fd00:c1::a9fe:a9fe", 80),
    "Alibaba Cloud": ("100.100.100.200", 80),
    "Tencent Cloud": ("169.254.0.23", 80),
}
# The same in other forms: mapped, compatible, through NAT64 and 6to4.
FORMS = {
    f"{text} as {form}": (form, 80)
    for text, forms in {
        "169.254.169.254": (
            "::ffff:169.254.169.254",
            "::a9fe:a9fe",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
        ),
        "168.63.129.16": ("::ffff:168.63.129.16", "::a83f:8110", "64:ff9b::a83f:8110", "2002:a83f:8110::"),
        "100.100.100.200": ("::ffff:100.100.100.200", "64:ff9b::6464:64c8"),
    }.items()
    for form in forms
}
HOST = "host"


def planned(spec: dict[str, Any], settings: Settings) -> Plan:
    return make_plan(observed(spec, reports={"orders-host-0": report(fleet=fleet(batch=batch()))}), settings)


def policies(plan: Plan) -> list[dict[str, Any]]:
    return [each for each in plan.applied if each["kind"] == "NetworkPolicy"]


def pods(plan: Plan) -> dict[str, dict[str, str]]:
    """Labels of the planned pods: of the hosts, and of the driver and executors of any launcher."""
    (hosts,) = (each for each in plan.applied if each["kind"] == "StatefulSet")
    found = {HOST: hosts["spec"]["template"]["metadata"]["labels"]}
    for job in plan.jobs:
        spec = job["spec"]
        if job["kind"] == "Job":
            template = spec["template"]["metadata"]
            found["driver"] = template["labels"]
            if labels.ANNOTATION_EXECUTOR in template.get("annotations", {}):
                executor = json.loads(template["annotations"][labels.ANNOTATION_EXECUTOR])
                found["executor"] = executor["metadata"]["labels"]
        elif "driver" in spec:
            found |= {role: spec[role]["template"]["metadata"]["labels"] for role in ("driver", "executor")}
        else:
            found |= {
                role: spec[f"{role}Spec"]["podTemplateSpec"]["metadata"]["labels"] for role in ("driver", "executor")
            }
    return found


def connect(spec: dict[str, Any], settings: Settings, targets: dict[str, tuple[str, int]]) -> Outcome:
    """The attack: code in each pod of the resource opens connections."""
    try:
        plan = planned(spec, settings)
    except SpecError as error:
        return Refused(str(error))
    reached = [
        f"{what} ({address}:{port}) from the {role}"
        for role, own in pods(plan).items()
        for what, (address, port) in targets.items()
        if lets_out(policies(plan), own, Target(address, port))
    ]
    return Gained("; ".join(reached)) if reached else Refused("the NetworkPolicies")


def everywhere(outcome: Outcome, spec: dict[str, Any], settings: Settings, targets: dict[str, tuple[str, int]]) -> bool:
    """Whether an attack reached all targets from all pods."""
    return isinstance(outcome, Gained) and outcome.loot.count(" from the ") == len(targets) * len(
        pods(planned(spec, settings))
    )


@pytest.fixture
def without_never(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Switches the list of services of nodes off."""

    def off() -> None:
        for name in ("NEVER", "_LEFT_OUT"):
            monkeypatch.setattr(egress, name, ())
        monkeypatch.setattr(egress, "MAPPED", IPv6Network("::ffff:203.0.113.0/128"))

    return off


@pytest.mark.parametrize("launcher", list(Launcher))
def test_code_in_a_pod_reaches_no_service_of_the_node(launcher: Launcher) -> None:
    spec = spec_with("spark.launcher", launcher.value, OWN_PROGRAM)
    assert pods(planned(spec, CHART)).keys() == {HOST, "driver", "executor"}
    targets = SERVICES | FORMS
    assert isinstance(connect(spec, CHART, targets), Refused)
    open_network = replace(CHART, network_policies=False)
    assert everywhere(connect(spec, open_network, targets), spec, open_network, targets)


@pytest.mark.parametrize("port", [80, 32526])
def test_the_port_of_a_proxy_does_not_open_the_metadata_service(port: int, without_never: Callable[[], None]) -> None:
    """The rules by port had no addresses: a proxy or an endpoint of notices on port 80 opened it on every machine."""
    spec = spec_with("proxy", {"url": f"http://a.proxy.example:{port}"}, OWN_PROGRAM)
    targets = {name: (address, port) for name, (address, _) in (SERVICES | FORMS).items()}
    assert isinstance(connect(spec, CHART, targets), Refused)
    without_never()
    assert everywhere(connect(spec, CHART, targets), spec, CHART, targets)


def with_egress(field: str, cidr: str) -> dict[str, Any]:
    rule = {"to": [{"ipBlock": {"cidr": cidr}}], "ports": [{"port": 80}, {"port": 32526}]}
    base = OWN_PROGRAM | {"processing": {"handler": "a:B", "image": "registry.example/mine:1"}}
    return spec_with(field, [rule], base)


FIELDS = ("processing.egress", "spark.application.egress")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("service", SERVICES | FORMS)
def test_egress_names_no_service_of_the_node(field: str, service: str, without_never: Callable[[], None]) -> None:
    """Where the administrator allows all addresses: the address itself, in each form, and any range with it."""
    address, port = (SERVICES | FORMS)[service]
    target = {service: (address, port)}
    single = f"{address}/{128 if ':' in address else 32}"
    whole = "::/0" if ":" in address else "0.0.0.0/0"
    specs = [with_egress(field, cidr) for cidr in (single, whole)]
    for spec in specs:
        assert isinstance(connect(spec, GENEROUS, target), Refused)
    without_never()
    assert isinstance(connect(specs[0], GENEROUS, target), Gained)
    if "::ffff:" not in address:  # sent as IPv4
        assert isinstance(connect(specs[1], GENEROUS, target), Gained)


DATABASE = {"a database": ("10.1.2.3", 5432)}


def test_a_program_reaches_no_other_port_of_the_network_unless_the_administrator_allows_it() -> None:
    asking = spec_with(
        "spark.application.egress",
        [{"to": [{"ipBlock": {"cidr": "10.1.2.0/24"}}], "ports": [{"port": 5432}]}],
        OWN_PROGRAM,
    )
    assert isinstance(connect(OWN_PROGRAM, CHART, DATABASE), Refused)
    refused = connect(asking, CHART, DATABASE)
    assert isinstance(refused, Refused) and "extend egressCidrs" in refused.control
    allowed = replace(CHART, egress_cidrs=("10.1.0.0/16",))
    gained = connect(asking, allowed, DATABASE)
    assert isinstance(gained, Gained) and HOST not in gained.loot, (
        "the destinations of a program are not those of hosts"
    )
    shipped = {
        **asking,
        "spark": {**asking["spark"], "application": {"egress": asking["spark"]["application"]["egress"]}},
    }
    refused = connect(shipped, allowed, DATABASE)
    assert isinstance(refused, Refused) and "set spark.application.image" in refused.control


def test_a_pod_without_a_token_does_not_reach_the_port_of_the_api_server() -> None:
    api_server = {"the API server": ("10.9.0.4", 6443)}
    local = spec_with("spark.mode", "Local", OWN_PROGRAM)
    assert isinstance(connect(local, CHART, api_server), Refused)
    gained = connect(OWN_PROGRAM, CHART, api_server)
    assert isinstance(gained, Gained) and "from the driver" in gained.loot and HOST not in gained.loot


@pytest.mark.parametrize("launcher", list(Launcher))
@pytest.mark.parametrize("blocks_select_pods", [True, False])
def test_what_spark_and_hosts_need_is_open(launcher: Launcher, blocks_select_pods: bool) -> None:
    """The other direction: a policy that refuses all would pass every test above."""
    spec = spec_with("spark.launcher", launcher.value, OWN_PROGRAM)
    plan = planned(spec, CHART)
    own = pods(plan)

    def reaches(role: str, target: Target) -> bool:
        return lets_out(policies(plan), own[role], target, blocks_select_pods=blocks_select_pods)

    storage = [Target(address, 443) for address in ("20.60.1.1", "10.2.3.4", "2603:1030:20::1")]
    storage.append(Target("10.244.0.9", 443, namespace="ingress", labels={"app": "gateway"}))
    names = [Target("169.254.20.10", 53, protocol) for protocol in ("UDP", "TCP")]
    names.append(Target("10.244.0.2", 53, "UDP", "kube-system", {"k8s-app": "kube-dns"}))
    for role in own:
        assert all(reaches(role, target) for target in (*storage, *names))
    for port in (7078, 7079, 40_000):
        for role, other in (("driver", "executor"), ("executor", "driver")):
            assert reaches(role, Target("10.244.0.7", port, namespace=KEY.namespace, labels=own[other]))
            foreign = child_labels(KEY._replace(name="other"), labels.COMPONENT_SPARK)
            assert not reaches(role, Target("10.244.0.8", port, namespace=KEY.namespace, labels=foreign))
            assert not reaches(role, Target("10.244.0.8", port, namespace="other", labels=own[other]))
    assert all(reaches("driver", Target("10.9.0.4", port)) for port in (443, 6443))


def test_policies_that_name_addresses_of_ipv6_are_policies_of_their_own() -> None:
    """Azure Network Policy Manager refuses a whole policy for one such address."""
    plan = planned(OWN_PROGRAM, CHART)
    for policy in policies(plan):
        blocks = [
            peer["ipBlock"] for rule in policy["spec"]["egress"] for peer in rule.get("to", []) if "ipBlock" in peer
        ]
        assert {":" in each["cidr"] for each in blocks} == {policy["metadata"]["name"].endswith("-ipv6")}


def test_every_exception_is_a_part_of_its_range_in_the_same_family() -> None:
    """Kubernetes refuses others (ValidateIPBlock), and Go reads a mapped range as one of IPv4."""
    for policy in policies(planned(OWN_PROGRAM, CHART)):
        for rule in policy["spec"]["egress"]:
            for block in (peer["ipBlock"] for peer in rule.get("to", []) if "ipBlock" in peer):
                whole: IPv4Network | IPv6Network = (
                    IPv6Network("::/0") if ":" in block["cidr"] else IPv4Network("0.0.0.0/0")
                )
                assert block["cidr"] == str(whole)
                for each in block["except"]:
                    assert (":" in each) == (whole.version == 6) and not each.startswith("::ffff:")
