"""The faults of a campaign.

Left out, because Azure never does it, or because a person must decide afterwards (docs/how-to/hub-diverged.md): Azurite
killed (it loses acknowledged writes), the hub deleted or created again, a failover that loses events, and retention or
compaction of events that are in no file. A wrong clock is row 16 of tests/faults: a pod accepts no preloaded library.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

from eventconsumer_demo import run
from eventhubs_emulator.admin_client import AdminClient
from tests.chaos.schedule import Action, Fault, NoTarget, Undo
from tests.chaos.stage import HOSTS, OPERATOR, CampaignStage, freeze, send
from tests.e2e.consumers import GOOD_NAMESPACE, GOOD_STORAGE
from tests.e2e.test_bad_input import WRONG_KEY

MOMENT = (0.0, 0.0)
LEASE_SECONDS = (20.0, 45.0)  # a host's lease lasts 15 s
CLAIM_SECONDS = (35.0, 60.0)  # the lease of a driver's claim lasts 30 s
SHORT_SECONDS = (5.0, 25.0)
HUB_SECONDS = (5.0, 15.0)  # the kubelet restarts an emulator that has not answered for 60 s, and its events are gone
PLANE_SECONDS = (10.0, 40.0)  # a node is tainted after 40 s without a report, its pods are evicted 5 minutes later
SPEC_SECONDS = (10.0, 40.0)
MAX_PARTITIONS = 16

Act = Callable[[CampaignStage, Action], Undo | None]
Find = Callable[[CampaignStage, Action], str]


# Targets


def host(stage: CampaignStage, action: Action) -> str:
    """A host pod."""
    return action.choose(stage.pods(action.consumer, "host"))


def leader(stage: CampaignStage, action: Action) -> str:
    """The pod of the leading host."""
    return stage.leader(action.consumer)


def driver(stage: CampaignStage, action: Action) -> str:
    """A driver pod."""
    return action.choose(stage.pods(action.consumer, "spark"))


def operator(stage: CampaignStage, action: Action) -> str:
    """A pod of the operator."""
    return action.choose(stage.operators())


def azurite(stage: CampaignStage, _: Action) -> str:
    """The pod of Azurite."""
    return stage.stand_in(run.BLOB_NAMESPACE, "azurite")


def emulator(stage: CampaignStage, _: Action) -> str:
    """The pod of the Event Hubs emulator."""
    return stage.stand_in(run.HUB_NAMESPACE, "eventhubs-emulator")


def partition(stage: CampaignStage, action: Action) -> str:
    """A partition of the consumer's hub."""
    return action.choose([str(number) for number in range(stage.partitions[action.consumer])])


# Pods and their processes


def killed(find: Find) -> Act:
    """SIGKILL of a pod's processes."""

    def act(stage: CampaignStage, action: Action) -> None:
        send(stage.pod_processes(find(stage, action)), signal.SIGKILL)

    return act


def ended(find: Find) -> Act:
    """SIGTERM of a pod's processes: an orderly end without a deletion."""

    def act(stage: CampaignStage, action: Action) -> None:
        send(stage.pod_processes(find(stage, action)), signal.SIGTERM)

    return act


def frozen(find: Find) -> Act:
    """SIGSTOP of a pod's processes, then SIGCONT."""

    def act(stage: CampaignStage, action: Action) -> Undo:
        return freeze(stage.pod_processes(find(stage, action)))

    return act


def deleted(find: Find, *options: str) -> Act:
    """Deletion of a pod."""

    def act(stage: CampaignStage, action: Action) -> None:
        stage.delete("pod", find(stage, action), *options)

    return act


FORCE = ("--grace-period=0", "--force")


def evicted(stage: CampaignStage, action: Action) -> None:
    """Eviction of a host, as `kubectl drain` does."""
    pod, namespace = host(stage, action), stage.cluster.namespace
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    stage.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def all_hosts_killed(stage: CampaignStage, action: Action) -> None:
    """SIGKILL of all hosts of a consumer at once."""
    pods = stage.pods(action.consumer, "host")
    action.choose(pods)
    for pod in pods:
        send(stage.pod_processes(pod), signal.SIGKILL)


def stateful_set_deleted(*options: str) -> Act:
    """Deletion of the StatefulSet of the hosts."""

    def act(stage: CampaignStage, action: Action) -> None:
        stage.delete("statefulset", f"{action.consumer}-host", *options)

    return act


def job_deleted(stage: CampaignStage, action: Action) -> None:
    """Deletion of the Job of a running driver."""
    owners = stage.get("pod", driver(stage, action))["metadata"].get("ownerReferences", [])
    jobs = [owner["name"] for owner in owners if owner["kind"] == "Job"]
    stage.delete("job", action.choose(jobs))


def operator_absent(stage: CampaignStage, _: Action) -> None:
    """The operator scaled to 0."""
    stage.kubectl("scale", "deployment", OPERATOR, "--replicas=0")


def operator_present(stage: CampaignStage, _: Action) -> None:
    """The operator scaled to 1."""
    stage.kubectl("scale", "deployment", OPERATOR, "--replicas=1")


# The hub

Inject = Callable[[AdminClient, str, str], object]  # with the names of a hub and one of its partitions


def hub(inject: Inject, *, detach: bool = False) -> Act:
    """A fault of the emulator; `detach`: all links of the hub are opened again, so that it meets them."""

    def act(stage: CampaignStage, action: Action) -> None:
        inject(stage.admin, action.consumer, partition(stage, action))
        if detach:
            stage.admin.detach(hub=action.consumer)

    return act


def hub_cleared(stage: CampaignStage, _: Action) -> None:
    """The end of all lasting faults of the emulator."""
    stage.admin.clear_faults()


def services_detached(admin: AdminClient, _: str, __: str) -> None:
    """The links for tokens and queries are detached."""
    admin.detach(kind="cbs")
    admin.detach(kind="management")


def links_stolen(admin: AdminClient, name: str, number: str) -> None:
    """The link of a partition is detached, as by a reader with a higher epoch."""
    why = "New receiver with higher epoch is created."
    admin.detach("amqp:link:stolen", why, hub=name, partition=number, kind="reader")


def tokens_refused(admin: AdminClient, _: str, __: str) -> None:
    """All connections are opened again, and every token is refused."""
    admin.fail_cbs(401)
    admin.drop_connections()


def tokens_unanswered(admin: AdminClient, _: str, __: str) -> None:
    """All connections are opened again, and no token is answered."""
    admin.fail_cbs()
    admin.drop_connections()


def redelivered(stage: CampaignStage, action: Action) -> None:
    """A reader gets events of before again."""
    number = partition(stage, action)
    start = max(0, stage.storage.drained_until(action.consumer, number) - 100)
    stage.admin.redeliver(start, hub=action.consumer, partition=number)


def retention_passed(stage: CampaignStage, action: Action) -> None:
    """The hub deletes events that are in files."""
    number = partition(stage, action)
    stage.admin.move_retention(action.consumer, number, before=stage.storage.drained_until(action.consumer, number))


def compacted(stage: CampaignStage, action: Action) -> None:
    """Log compaction removes events that are in files."""
    number = partition(stage, action)
    end = stage.storage.drained_until(action.consumer, number)
    stage.admin.compact(action.consumer, number, range(max(0, end - 200), end, 2))


def partitions_grown(stage: CampaignStage, action: Action) -> None:
    """The hub gets another partition."""
    total = stage.partitions[action.consumer] + 1
    if total > MAX_PARTITIONS:
        raise NoTarget(f"the hub has {MAX_PARTITIONS} partitions already")
    stage.admin.add_partitions(action.consumer, total)
    stage.partitions[action.consumer] = total


# Network

HUB_PORT = ("-p", "tcp", "--dport", "5672")
BLOB_PORT = ("-p", "tcp", "--dport", str(run.BLOB_PORT))
API_PORT = ("-p", "tcp", "--dport", "443")  # of the Service `kubernetes`
DNS_PORT = ("-p", "udp", "--dport", "53")
ALL_PORTS = ()


def cut(find: Find, rule: tuple[str, ...]) -> Act:
    """Packets of a pod are dropped."""

    def act(stage: CampaignStage, action: Action) -> Undo:
        return stage.drop_packets(find(stage, action), rule)

    return act


# Storage


def lease_broken(stage: CampaignStage, action: Action) -> None:
    """The lease of a partition is broken by hand."""
    stage.storage.break_lease(stage.storage.leases, action.choose(stage.storage.lease_blobs(action.consumer)))


def leader_lease_broken(stage: CampaignStage, action: Action) -> None:
    """The lease of the leading host is broken by hand."""
    stage.storage.break_lease(stage.storage.sink, f"{action.consumer}/_leader")


def lease_blob_deleted(stage: CampaignStage, action: Action) -> None:
    """The lease blob of a partition is deleted by hand."""
    stage.storage.delete_lease_blob(action.choose(stage.storage.lease_blobs(action.consumer)))


# The control plane


def component_killed(name: str) -> Act:
    """SIGKILL of a component of the cluster."""

    def act(stage: CampaignStage, _: Action) -> None:
        send([stage.component(name)], signal.SIGKILL)

    return act


def component_frozen(name: str) -> Act:
    """SIGSTOP of a component of the cluster, then SIGCONT; components that ended meanwhile are started again."""

    def act(stage: CampaignStage, _: Action) -> Undo:
        thaw = freeze([stage.component(name)])

        def undo() -> None:
            thaw()
            stage.repair()

        return undo

    return act


def repaired(stage: CampaignStage, _: Action) -> None:
    """All components run again, by the cluster's own means."""
    stage.repair()


# The resource and its Secrets


def patched(**spec: object) -> Act:
    """A change of the spec."""

    def act(stage: CampaignStage, action: Action) -> None:
        stage.patch(action.consumer, spec)

    return act


def scaled(stage: CampaignStage, action: Action) -> None:
    """Another number of hosts."""
    stage.patch(action.consumer, {"scaling": {"replicas": action.choose([1, HOSTS + 1, HOSTS + 2])}})


def resource_deleted(stage: CampaignStage, action: Action) -> None:
    """The resource is deleted."""
    stage.delete("eventconsumer", action.consumer)


def resource_applied(stage: CampaignStage, action: Action) -> None:
    """The resource is as at the start of the campaign, whether it was changed or deleted."""
    stage.apply(action.consumer)
    stage.patch(action.consumer, {"suspend": False})  # `apply` keeps fields that it did not set


def hub_key_regenerated(stage: CampaignStage, action: Action) -> None:
    """The hub's key is regenerated; the Secret follows later."""
    stage.regenerate_hub_key(action.consumer, f"key-{action.number}")


def hub_secret_wrong(stage: CampaignStage, action: Action) -> None:
    """The Secret of the hub has a wrong key."""
    stage.secret(action.consumer, "hub", GOOD_NAMESPACE.replace(run.HUB_KEY, WRONG_KEY))


def hub_secret_valid(stage: CampaignStage, action: Action) -> None:
    """The Secret of the hub has the present key."""
    stage.secret(action.consumer, "hub", stage.hub_connection_string(action.consumer))


def storage_secret_wrong(stage: CampaignStage, action: Action) -> None:
    """The Secret of the storage has a wrong key."""
    stage.secret(action.consumer, "storage", GOOD_STORAGE.replace(run.STORAGE_KEY, WRONG_KEY))


def storage_secret_deleted(stage: CampaignStage, action: Action) -> None:
    """The Secret of the storage is deleted."""
    stage.delete("secret", f"{action.consumer}-storage")


def storage_secret_valid(stage: CampaignStage, action: Action) -> None:
    """The Secret of the storage has the right key."""
    stage.secret(action.consumer, "storage", GOOD_STORAGE)


HOSTS_PART, DRIVERS_PART, OPERATOR_PART = "hosts of {consumer}", "drivers of {consumer}", "operator"
HUB_PART, STORAGE_PART, PLANE_PART = "hub", "storage", "control plane"
SPEC_PART, SECRET_PART = "resource of {consumer}", "secrets of {consumer}"


def of_hosts(name: str, act: Act, seconds: tuple[float, float] = MOMENT, weight: float = 1) -> Fault:
    """A fault of a consumer's hosts."""
    return Fault(name, HOSTS_PART, act, seconds=seconds, weight=weight)


def of_drivers(name: str, act: Act, seconds: tuple[float, float] = MOMENT, weight: float = 1) -> Fault:
    """A fault of a consumer's drivers."""
    return Fault(name, DRIVERS_PART, act, seconds=seconds, weight=weight)


def of_hub_once(name: str, act: Act) -> Fault:
    """A fault of the emulator that happens once."""
    return Fault(name, HUB_PART, act)


def of_hub(name: str, act: Act, seconds: tuple[float, float] = SHORT_SECONDS) -> Fault:
    """A lasting fault of the emulator."""
    return Fault(name, HUB_PART, act, hub_cleared, seconds)


def of_plane(name: str, act: Act, undo: Callable[[CampaignStage, Action], None] | None = None) -> Fault:
    """A fault of a component of the cluster."""
    return Fault(name, PLANE_PART, act, undo, PLANE_SECONDS, 0.7)


def of_spec(name: str, act: Act, weight: float = 1) -> Fault:
    """A change of the resource."""
    return Fault(name, SPEC_PART, act, resource_applied, SPEC_SECONDS, weight)


FAULTS = (
    of_hosts("host-deleted", deleted(host)),
    of_hosts("host-deleted-by-force", deleted(host, *FORCE)),
    of_hosts("host-evicted", evicted),
    of_hosts("host-killed", killed(host), weight=2),
    of_hosts("host-ended", ended(host)),
    of_hosts("host-frozen", frozen(host), LEASE_SECONDS, 2),
    of_hosts("leader-killed", killed(leader), weight=2),
    of_hosts("leader-frozen", frozen(leader), LEASE_SECONDS, 2),
    of_hosts("leader-deleted", deleted(leader)),
    of_hosts("all-hosts-killed", all_hosts_killed),
    of_hosts("statefulset-deleted", stateful_set_deleted()),
    of_hosts("statefulset-orphaned", stateful_set_deleted("--cascade=orphan")),
    of_hosts("host-cut-from-storage", cut(host, BLOB_PORT), LEASE_SECONDS),
    of_hosts("host-cut-from-hub", cut(host, HUB_PORT), LEASE_SECONDS),
    of_hosts("host-cut-from-all", cut(host, ALL_PORTS), LEASE_SECONDS),
    of_hosts("host-without-names", cut(host, DNS_PORT), LEASE_SECONDS),
    Fault("operator-deleted", OPERATOR_PART, deleted(operator)),
    Fault("operator-killed", OPERATOR_PART, killed(operator), weight=2),
    Fault("operator-frozen", OPERATOR_PART, frozen(operator), seconds=LEASE_SECONDS),
    Fault("operator-absent", OPERATOR_PART, operator_absent, operator_present, PLANE_SECONDS),
    Fault("operator-cut-from-api", OPERATOR_PART, cut(operator, API_PORT), seconds=LEASE_SECONDS),
    of_drivers("driver-deleted", deleted(driver)),
    of_drivers("driver-deleted-by-force", deleted(driver, *FORCE)),
    of_drivers("driver-killed", killed(driver), weight=2),
    of_drivers("driver-ended", ended(driver)),
    of_drivers("driver-frozen", frozen(driver), CLAIM_SECONDS, 2),
    of_drivers("driver-cut-from-storage", cut(driver, BLOB_PORT), CLAIM_SECONDS),
    of_drivers("job-deleted", job_deleted),
    # Never with a fault of the control plane, whose undo could delay the end of this one.
    Fault("hub-frozen", PLANE_PART, frozen(emulator), seconds=HUB_SECONDS),
    of_hub_once("hub-connections-dropped", hub(lambda admin, _, __: admin.drop_connections())),
    of_hub_once("hub-links-detached", hub(lambda admin, name, _: admin.detach(hub=name))),
    of_hub_once("hub-link-stolen", hub(links_stolen)),
    of_hub_once("hub-services-detached", hub(services_detached)),
    of_hub_once("hub-tokens-expired", hub(lambda admin, _, __: admin.expire_tokens())),
    of_hub_once("hub-failed-over", hub(lambda admin, name, _: admin.fail_over(name))),
    of_hub_once("hub-numbers-skipped", hub(lambda admin, name, number: admin.skip_numbers(name, number, 1000))),
    of_hub_once("hub-events-redelivered", redelivered),
    of_hub_once("hub-retention-passed", retention_passed),
    of_hub_once("hub-compacted", compacted),
    of_hub_once("hub-partitions-grown", partitions_grown),
    of_hub(
        "hub-links-frozen", hub(lambda admin, name, number: admin.freeze(hub=name, partition=number)), LEASE_SECONDS
    ),
    of_hub("hub-attaches-late", hub(lambda admin, name, _: admin.answer_late(hub=name), detach=True)),
    of_hub("hub-attaches-refused", hub(lambda admin, name, _: admin.refuse(hub=name), detach=True)),
    of_hub("hub-busy", hub(lambda admin, name, _: admin.busy(hub=name), detach=True)),
    of_hub("hub-slow", hub(lambda admin, _, __: admin.delay(0.5))),
    of_hub("hub-tokens-refused", hub(tokens_refused)),
    of_hub("hub-tokens-unanswered", hub(tokens_unanswered)),
    Fault("storage-frozen", STORAGE_PART, frozen(azurite), seconds=LEASE_SECONDS, weight=2),
    Fault("lease-broken", STORAGE_PART, lease_broken, weight=2),
    Fault("leader-lease-broken", STORAGE_PART, leader_lease_broken),
    Fault("lease-blob-deleted", STORAGE_PART, lease_blob_deleted),
    of_plane("api-server-killed", component_killed("kube-apiserver"), repaired),
    of_plane("api-server-frozen", component_frozen("kube-apiserver")),
    of_plane("etcd-killed", component_killed("etcd"), repaired),
    of_plane("etcd-frozen", component_frozen("etcd")),
    of_plane("kubelet-killed", component_killed("kubelet"), repaired),
    of_plane("kubelet-frozen", component_frozen("kubelet")),
    of_plane("scheduler-killed", component_killed("kube-scheduler"), repaired),
    of_plane("scheduler-frozen", component_frozen("kube-scheduler")),
    of_plane("controller-manager-killed", component_killed("kube-controller-manager"), repaired),
    of_plane("controller-manager-frozen", component_frozen("kube-controller-manager")),
    of_plane("kube-proxy-killed", component_killed("kube-proxy"), repaired),
    of_plane("coredns-frozen", component_frozen("coredns")),
    of_plane("containerd-frozen", component_frozen("containerd")),
    of_spec("scaled", scaled, 2),
    of_spec("scaled-to-zero", patched(scaling={"replicas": 0})),
    of_spec("suspended", patched(suspend=True)),
    of_spec("rolled", patched(pods={"resources": {"requests": {"cpu": "60m"}}})),
    of_spec("configured", patched(sink={"roll": {"maxSeconds": 6}}, spark={"trigger": {"files": 25}})),
    of_spec("resource-deleted", resource_deleted),
    Fault("resource-applied-again", SPEC_PART, resource_deleted, resource_applied, (0.1, 0.5)),
    Fault("hub-key-regenerated", SECRET_PART, hub_key_regenerated, hub_secret_valid, (1.0, 15.0)),
    Fault("hub-secret-wrong", SECRET_PART, hub_secret_wrong, hub_secret_valid, SPEC_SECONDS),
    Fault("storage-secret-wrong", SECRET_PART, storage_secret_wrong, storage_secret_valid, SPEC_SECONDS),
    Fault("storage-secret-deleted", SECRET_PART, storage_secret_deleted, storage_secret_valid, SPEC_SECONDS),
)
