"""A tenant with the role `edit` in one namespace, against users of `kubectl eventconsumer` in another one."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventconsumer_api.kinds import Manifest
from eventconsumer_cli.kube.client import KubernetesCluster
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, STATEFUL_SET
from eventconsumer_cli.kube.kubeconfig import connect
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.contract.operator.conftest import Cluster, rendered_chart, start_cluster
from tests.support.kubelet import kubelet
from tests.support.waiting import HANG_SECONDS
from tests.unit.cli.inside import hosts_of, resource

EVIL = "registry.example.com/evil:1"
IMAGE = "registry.example.com/eventconsumer/processor:1.2.3"  # that of the release, tests/support/chart.yaml
ATTACKER, VICTIM, SUPPORTER = "attacker", "victim", "supporter"
# Nothing aggregates roles here, so each part of `edit` is bound by itself.
EDIT = (
    "system:aggregate-to-view", "system:aggregate-to-edit",
    "eventconsumer-viewer", "eventconsumer-editor", "eventconsumer-tools",
)  # fmt: skip
USE = ("eventconsumer-viewer", "eventconsumer-editor", "eventconsumer-tools")
INIT = (
    "init", "bills", "--hub", "bills", "--hub-secret", "bills-hub", "--storage-secret", "bills-storage", "-f", "-",
)  # fmt: skip
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server with the CRD, the chart's roles for users, and three users without any binding."""
    yield from start_cluster(tmp_path_factory.mktemp("apiserver"), (ATTACKER, VICTIM, SUPPORTER))


@dataclass(frozen=True)
class Shop:
    """A served namespace with a consumer and a tenant's namespace beside it.

    Attributes:
        cluster: The API server.
        namespace: The served namespace, where `VICTIM` and `SUPPORTER` may use all commands. `SUPPORTER` may also view
            the whole cluster.
        elsewhere: The namespace in which `ATTACKER` has the role `edit`.
        chart: Objects of the release that serves it.
    """

    cluster: Cluster
    namespace: str
    elsewhere: str
    chart: list[Manifest]

    @property
    def record(self) -> str:
        """Name of the record of the release."""
        return f"eventconsumer:serves:{self.namespace}"

    @property
    def admin(self) -> KubernetesCluster:
        """The cluster, for an administrator."""
        return connect(self.cluster.server.kubeconfig())

    def attacker(self, *words: str, stdin: Manifest | None = None) -> None:
        """Run kubectl as the attacker, who may not be allowed to do it."""
        access = ("--kubeconfig", str(self.cluster.server.kubeconfig(ATTACKER)))
        self.cluster.kubectl(*words, *access, stdin=json.dumps(stdin) if stdin else None, check=False)

    def plugin(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the plugin as a user."""
        program = Path(sys.executable).parent / "kubectl-eventconsumer"
        access = ("-n", self.namespace, "--kubeconfig", str(self.cluster.server.kubeconfig(user)))
        return subprocess.run(
            [program, *words, *access],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=HANG_SECONDS,
            env=os.environ | {"COLUMNS": "400"},
        )  # fmt: skip

    def bind(self, user: str, *roles: str, namespace: str = "") -> None:
        """Bind ClusterRoles to a user, in a namespace or for all."""
        place = {"namespace": namespace} if namespace else {}
        items = [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
                "metadata": {"name": f"{user}-{role}"} | place,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }
            for role in roles
        ]
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def wait(self, user: str, verb: str, what: str, namespace: str = "default") -> None:
        """Wait until the API server's cache has the right that was granted last."""
        deadline = time.monotonic() + HANG_SECONDS
        asked = ("auth", "can-i", verb, what, f"--as={user}", "-n", namespace)
        while self.cluster.kubectl(*asked, check=False).stdout.strip() != "yes":
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture
def shop(cluster: Cluster) -> Shop:
    """With users, and a release installed by the chart in namespace operator-system."""
    namespace, elsewhere = (f"{name}-{next(_numbers)}" for name in ("shop", "elsewhere"))
    for name in (namespace, elsewhere):
        cluster.kubectl("create", "namespace", name)
    text = rendered_chart(f"watchNamespaces={{{namespace}}},fleetKey.create=false")
    chart = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    made = Shop(cluster, namespace, elsewhere, chart)
    consumer = resource()
    consumer["metadata"] = {"name": "orders", "namespace": namespace}
    made.admin.create(STATEFUL_SET, hosts_of(made.admin.create(EVENT_CONSUMER, consumer)))
    made.bind(ATTACKER, *EDIT, namespace=elsewhere)
    for user in (VICTIM, SUPPORTER):
        made.bind(user, *USE, namespace=namespace)
    made.bind(SUPPORTER, "system:aggregate-to-view")
    made.wait(SUPPORTER, "list", "deployments.apps", elsewhere)
    return made


def take_over(shop: Shop, user: str, *command: str) -> Outcome:
    """Make a command of another user start, or name, the attacker's image: by an operator, a record or hosts.

    Args:
        shop: The place.
        user: The user of the plugin.
        command: Arguments of the plugin.
    """
    labels = {
        "app.kubernetes.io/name": "eventconsumer", "app.kubernetes.io/component": "operator",
        "app.kubernetes.io/version": version("eventconsumer-cli"),
    }  # fmt: skip
    arguments = [f"--processor-image={EVIL}", "--all-namespaces", "--allow-insecure-endpoints"]
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "operator", "image": EVIL, "args": arguments}]},
    }
    operator = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "eventconsumer-operator", "namespace": shop.elsewhere, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    shop.attacker("create", "-f", "-", stdin=operator)
    said = json.dumps({"version": 1, "processorImage": EVIL, "hostServiceAccount": "default"})
    own = {"installation.eventconsumer.io/operator-system": said}
    for name in (shop.record, "eventconsumer:serves-all"):
        role: dict[str, Any] = {"metadata": {"name": name, "annotations": own}}
        shop.attacker("patch", "clusterrole", name, "--type=merge", "-p", json.dumps(role))
        role |= {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
        shop.attacker("create", "-f", "-", stdin=role)
    changed = {"spec": {"template": {"spec": {"containers": [{"name": "host", "image": EVIL}]}}}}
    shop.attacker("patch", "statefulset", "orders-host", "-n", shop.namespace, "-p", json.dumps(changed))
    with kubelet(shop.admin, shop.namespace) as started:
        ran = shop.plugin(user, *command)
    for pod in started:
        spec = pod["spec"]
        if EVIL in {each["image"] for each in spec["containers"]}:
            secrets = sorted(each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each)
            account = spec.get("serviceAccountName")
            return Gained(f"a pod of {EVIL} in {shop.namespace} as {account} with Secrets {', '.join(secrets)}")
    if EVIL in ran.stdout:
        return Gained(f"the place of the operator: {next(line for line in ran.stdout.splitlines() if EVIL in line)}")
    images = {each["image"] for pod in started for each in pod["spec"]["containers"]}
    return Refused(f"pods of {', '.join(images) or 'no image'}: {ran.stderr}{ran.stdout}")


@pytest.mark.parametrize("user", [SUPPORTER, VICTIM])
def test_a_tenants_operator_gives_init_no_image(shop: Shop, user: str) -> None:
    outcome = take_over(shop, user, *INIT)
    assert isinstance(outcome, Refused), outcome
    # And `init` does its work: it takes the image and the account of the release, and names both.
    assert f"pods of {IMAGE}: " in outcome.control, outcome
    assert f"with image {IMAGE} and service account eventconsumer-host is created" in outcome.control
    write_records(shop)
    assert isinstance(outcome := take_over(shop, user, *INIT), Gained), outcome


@pytest.mark.parametrize("user", [SUPPORTER, VICTIM])
def test_a_tenants_operator_is_none_for_doctor(shop: Shop, user: str) -> None:
    doctor = ("doctor", "orders", "--no-inside")
    outcome = take_over(shop, user, *doctor)
    assert isinstance(outcome, Refused), outcome
    assert f"the release in namespace operator-system (ClusterRole {shop.record}) serves" in outcome.control
    assert shop.elsewhere not in outcome.control
    write_records(shop)
    assert isinstance(outcome := take_over(shop, user, *doctor), Gained), outcome


@pytest.mark.parametrize("command", [("lag", "orders"), ("checkpoint", "show", "orders"), ("doctor", "orders")])
def test_tools_of_a_consumer_take_the_image_of_its_hosts(shop: Shop, command: tuple[str, ...]) -> None:
    outcome = take_over(shop, SUPPORTER, *command)
    assert isinstance(outcome, Refused), outcome
    assert "pods of processor:1: " in outcome.control, outcome
    # The namespace is the boundary: whoever may change its StatefulSets chooses the image.
    shop.bind(ATTACKER, *EDIT, namespace=shop.namespace)
    shop.wait(ATTACKER, "patch", "statefulsets.apps", shop.namespace)
    assert isinstance(outcome := take_over(shop, SUPPORTER, *command), Gained), outcome


@pytest.mark.parametrize("user", [SUPPORTER, VICTIM])
def test_without_a_record_no_image_is_taken_but_one_that_the_user_names(shop: Shop, user: str) -> None:
    shop.cluster.kubectl("delete", "clusterrole", shop.record)  # as before the chart had records
    outcome = take_over(shop, user, *INIT)
    assert isinstance(outcome, Refused), outcome
    assert "pods of no image: " in outcome.control and "chart's watchNamespaces" in outcome.control, outcome
    assert isinstance(outcome := take_over(shop, user, *INIT, "--image", EVIL), Gained), outcome


def write_records(shop: Shop) -> None:
    """Grant the attacker the right that only administrators have."""
    granted = f"writer-of-{shop.namespace}"
    shop.cluster.kubectl("create", "clusterrole", granted, "--verb=get,patch", "--resource=clusterroles",
                         f"--resource-name={shop.record}")  # fmt: skip
    shop.bind(ATTACKER, granted)
    shop.wait(ATTACKER, "patch", f"clusterroles.rbac.authorization.k8s.io/{shop.record}")
