"""A tenant with the role `edit` in one namespace, against users of `kubectl eventconsumer` in another one."""

import contextlib
import functools
import io
import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version

import pytest

from eventconsumer_api.kube.kinds import Kind
from eventconsumer_cli.errors import CliError, RefusedError
from eventconsumer_cli.kube.client import KubernetesCluster
from eventconsumer_cli.kube.kinds import CLUSTER_ROLE, DEPLOYMENT, EVENT_CONSUMER, NAMESPACE, STATEFUL_SET
from eventconsumer_cli.kube.kubeconfig import connect
from eventconsumer_cli.kube.releases import ANNOTATION, SERVES, SERVES_ALL
from eventconsumer_cli.main import main
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.contract.operator.conftest import Cluster, rendered_chart, start_cluster
from tests.support.apiserver import ADMIN
from tests.support.kubelet import kubelet
from tests.support.waiting import HANG_SECONDS
from tests.unit.cli.inside import hosts_of, resource

EVIL = "registry.example.com/evil:1"
IMAGE = "registry.example.com/eventconsumer/processor:1.2.3"  # that of the release, tests/support/chart.yaml
ATTACKER, VICTIM, SUPPORTER = "attacker", "victim", "supporter"
# Nothing aggregates roles here, so each part of `edit` is bound by itself.
EDIT = (
    "system:aggregate-to-view",
    "system:aggregate-to-edit",
    "eventconsumer-viewer",
    "eventconsumer-editor",
    "eventconsumer-tools",
)
USE = ("eventconsumer-viewer", "eventconsumer-editor", "eventconsumer-tools")
INIT = (
    "init",
    "bills",
    "--hub",
    "bills",
    "--hub-secret",
    "bills-hub",
    "--storage-secret",
    "bills-storage",
    "-f",
    "-",
)
ROLE_BINDING = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE_BINDING = Kind(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
_connected = functools.cache(connect)
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
    """

    cluster: Cluster
    namespace: str
    elsewhere: str

    @property
    def record(self) -> str:
        """Name of the record of the release."""
        return SERVES + self.namespace

    def of(self, user: str = ADMIN) -> KubernetesCluster:
        """The cluster, for a user."""
        return _connected(self.cluster.server.kubeconfig(user))

    def plugin(self, user: str, *words: str) -> str:
        """What the plugin prints for a user; in this process: a program of its own takes seconds to start."""
        access = ("-n", self.namespace, "--kubeconfig", str(self.cluster.server.kubeconfig(user)))
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(out):
            patch.setenv("COLUMNS", "400")
            patch.setattr("sys.stdin", io.StringIO())
            main([*words, *access])
        return out.getvalue()

    def bind(self, user: str, *roles: str, namespace: str = "") -> None:
        """Bind ClusterRoles to a user, in a namespace or for all."""
        for role in roles:
            manifest = {
                "metadata": {"name": f"{user}-{role}", "namespace": namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }
            with contextlib.suppress(RefusedError):  # it exists
                self.of().create(ROLE_BINDING if namespace else CLUSTER_ROLE_BINDING, manifest)

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
    text = rendered_chart("watchNamespaces={served-namespace},fleetKey.create=false")
    text = text.replace("served-namespace", namespace)
    made = Shop(cluster, namespace, elsewhere)
    for name in (namespace, elsewhere):
        made.of().create(NAMESPACE, {"metadata": {"name": name}})
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    consumer = resource()
    consumer["metadata"] = {"name": "orders", "namespace": namespace}
    made.of().create(STATEFUL_SET, hosts_of(made.of().create(EVENT_CONSUMER, consumer)))
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
        "app.kubernetes.io/name": "eventconsumer",
        "app.kubernetes.io/component": "operator",
        "app.kubernetes.io/version": version("eventconsumer-cli"),
    }
    arguments = [f"--processor-image={EVIL}", "--all-namespaces", "--allow-insecure-endpoints"]
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "operator", "image": EVIL, "args": arguments}]},
    }
    operator = {
        "metadata": {"name": "eventconsumer-operator", "namespace": shop.elsewhere, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    attacker = shop.of(ATTACKER)
    attempt(attacker.create, DEPLOYMENT, operator)
    settings = json.dumps({"version": 1, "processorImage": EVIL, "hostServiceAccount": "default"})
    for name in (shop.record, SERVES_ALL):
        metadata = {"name": name, "annotations": {f"{ANNOTATION}operator-system": settings}}
        attempt(attacker.merge, CLUSTER_ROLE, "", name, {"metadata": metadata})
        attempt(attacker.create, CLUSTER_ROLE, {"metadata": metadata, "rules": []})
    hosts = shop.of().get(STATEFUL_SET, shop.namespace, "orders-host")["spec"]["template"]["spec"]["containers"]
    changed = {"spec": {"template": {"spec": {"containers": [each | {"image": EVIL} for each in hosts]}}}}
    attempt(attacker.merge, STATEFUL_SET, shop.namespace, "orders-host", changed)
    with kubelet(shop.of(), shop.namespace) as started:
        printed = shop.plugin(user, *command)
    for pod in started:
        spec = pod["spec"]
        if EVIL in {each["image"] for each in spec["containers"]}:
            secrets = sorted(each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each)
            account = spec.get("serviceAccountName")
            return Gained(f"a pod of {EVIL} in {shop.namespace} as {account} with Secrets {', '.join(secrets)}")
    if EVIL in printed:
        return Gained(f"the place of the operator: {next(line for line in printed.splitlines() if EVIL in line)}")
    images = {each["image"] for pod in started for each in pod["spec"]["containers"]}
    return Refused(f"pods of {', '.join(images) or 'no image'}: {printed}")


@pytest.mark.parametrize("user", [SUPPORTER, pytest.param(VICTIM, marks=pytest.mark.long)])
def test_a_tenants_operator_gives_init_no_image(shop: Shop, user: str) -> None:
    outcome = take_over(shop, user, *INIT)
    assert isinstance(outcome, Refused), outcome
    # And `init` does its work: it takes the image and the account of the release, and names both.
    assert f"pods of {IMAGE}: " in outcome.control, outcome
    assert f"with image {IMAGE} and service account eventconsumer-host is created" in outcome.control
    write_records(shop)
    assert isinstance(outcome := take_over(shop, user, *INIT), Gained), outcome


def test_a_tenants_operator_is_none_for_doctor(shop: Shop) -> None:
    outcome = take_over(shop, SUPPORTER, "doctor", "orders")
    assert isinstance(outcome, Refused), outcome
    assert f"the release in namespace operator-system (ClusterRole {shop.record}) serves" in outcome.control
    assert shop.elsewhere not in outcome.control
    write_records(shop)
    assert isinstance(outcome := take_over(shop, SUPPORTER, "doctor", "orders"), Gained), outcome


def test_tools_of_a_consumer_take_the_image_of_its_hosts(shop: Shop) -> None:
    outcome = take_over(shop, SUPPORTER, "lag", "orders")
    assert isinstance(outcome, Refused), outcome
    assert "pods of processor:1: " in outcome.control, outcome
    # The namespace is the boundary: whoever may change its StatefulSets chooses the image.
    shop.bind(ATTACKER, *EDIT, namespace=shop.namespace)
    shop.wait(ATTACKER, "patch", "statefulsets.apps", shop.namespace)
    assert isinstance(outcome := take_over(shop, SUPPORTER, "lag", "orders"), Gained), outcome


def test_without_a_record_no_image_is_taken_but_one_that_the_user_names(shop: Shop) -> None:
    for kind in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING):
        shop.of().delete(kind, "", shop.record)  # as before the chart had records
    outcome = take_over(shop, SUPPORTER, *INIT)
    assert isinstance(outcome, Refused), outcome
    assert "pods of no image: " in outcome.control and "chart's watchNamespaces" in outcome.control, outcome
    assert isinstance(outcome := take_over(shop, SUPPORTER, *INIT, "--image", EVIL), Gained), outcome


def attempt(do: Callable[..., object], *arguments: object) -> None:
    """Try something that may be refused."""
    with contextlib.suppress(CliError):
        do(*arguments)


def write_records(shop: Shop) -> None:
    """Grant the attacker the right that only administrators have."""
    rule = {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"],
        "resourceNames": [shop.record],
        "verbs": ["get", "patch"],
    }
    granted = f"writer-of-{shop.namespace}"
    shop.of().create(CLUSTER_ROLE, {"metadata": {"name": granted}, "rules": [rule]})
    shop.bind(ATTACKER, granted)
    shop.wait(ATTACKER, "patch", f"clusterroles.rbac.authorization.k8s.io/{shop.record}")
