"""Programs of the host image: where they run, what is passed on, and that nothing stays."""

import contextlib
import json
from collections.abc import Sequence

import pytest

from eventconsumer_api.kube import labels
from eventconsumer_cli.errors import Failed
from eventconsumer_cli.kube import toolbox, toolpod
from eventconsumer_cli.kube.kinds import POD
from eventconsumer_operator.resource.names import selector
from tests.unit.cli.inside import HANDLER, cluster_with, host_pod, hosts_of, resource
from tests.unit.cli.running import Shell

Answer = tuple[int, str, str]


def prints(command: Sequence[str], stdin: bytes | None) -> Answer:
    return 0, json.dumps(list(command)), "a remark\n"


def test_a_ready_host_is_asked_and_its_answer_passed_on(shell: Shell) -> None:
    cluster = cluster_with(prints)
    seen = shell.run(cluster, "leases", "orders", "-o", "json")
    assert seen.code == 0
    assert seen.json == ["eventconsumer", "leases", "-o", "json"]
    assert seen.err == "a remark\n"
    assert [(call.pod, call.container) for call in cluster.calls] == [("orders-host-0", "host")]
    assert cluster.made == []


def test_the_exit_code_is_the_programs(shell: Shell) -> None:
    for code in range(4):
        assert shell.run(cluster_with(lambda *_, code=code: (code, "", "")), "audit", "--deep").code == code


def test_without_a_host_a_pod_is_made_and_removed(shell: Shell) -> None:
    cluster = cluster_with(prints, hosts=False)
    seen = shell.run(cluster, "lag")
    (name,) = (pod["metadata"]["name"] for pod in cluster.made)
    pod = f"pod shop/{name} with image processor:1 and service account eventconsumer-host"
    assert seen.code == 0 and f"{pod} is created for this command and deleted afterwards" in seen.err
    assert [call.container for call in cluster.calls] == ["tool"]
    assert len(cluster.made) == 1 and cluster.tool_pods == []


def test_the_stateful_set_of_something_else_is_no_template(shell: Shell) -> None:
    cluster = cluster_with(prints, hosts=False)
    cluster.objects["statefulsets", "shop", "orders-host"]["metadata"]["ownerReferences"][0]["uid"] = "another"
    seen = shell.run(cluster, "lag")
    assert seen.code == 2 and "StatefulSet shop/orders-host does not belong to this EventConsumer" in seen.err
    assert cluster.made == []


def test_only_a_ready_host_is_asked_and_none_with_new_pod(shell: Shell) -> None:
    cluster = cluster_with(prints, hosts=False)
    cluster.put(POD, host_pod("trap", owner="somebody-else"))  # it only has the labels of a host
    cluster.put(POD, host_pod("orders-host-0", ready=False))
    shell.run(cluster, "leases")
    cluster.put(POD, host_pod())
    shell.run(cluster, "audit", "--new-pod")
    assert [call.container for call in cluster.calls] == ["tool", "tool"]


def test_a_deep_audit_never_runs_in_the_memory_of_a_host(shell: Shell) -> None:
    cluster = cluster_with(prints)
    shell.run(cluster, "audit")
    seen = shell.run(cluster, "audit", "--deep")
    assert [call.container for call in cluster.calls] == [labels.COMPONENT_HOST, "tool"]
    assert "this command needs memory of its own: pod shop/orders-tool-" in seen.err
    hosts = hosts_of(resource())
    (host,) = hosts["spec"]["template"]["spec"]["containers"]
    (container,) = toolpod.of_consumer(resource(), hosts, "abc", 60, toolpod.DEEP_MEMORY)["spec"]["containers"]
    memory = {"requests": {"memory": "256Mi"}, "limits": {"memory": "1Gi"}}
    assert container["resources"] == {part: host["resources"][part] | memory[part] for part in memory}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_the_pod_goes_when_the_command_is_stopped(shell: Shell, error: type[BaseException]) -> None:
    def interrupted(command: Sequence[str], stdin: bytes | None) -> Answer:
        raise error

    cluster = cluster_with(interrupted, hosts=False)
    with contextlib.suppress(RuntimeError):
        assert shell.run(cluster, "lag").code == 130
    assert len(cluster.made) == 1 and cluster.tool_pods == []


def test_an_ended_pod_of_an_earlier_command_is_removed(shell: Shell) -> None:
    cluster = cluster_with(prints, hosts=False)
    for name, phase in (("ended", "Failed"), ("runs", "Running")):
        left = toolpod.of_consumer(resource(), hosts_of(resource()), name, 60)
        cluster.put(POD, left | {"status": {"phase": phase}})
    shell.run(cluster, "lag")
    assert cluster.tool_pods == ["orders-tool-runs"]


def test_a_pod_that_cannot_start_is_named_with_its_reason(shell: Shell) -> None:
    cluster = cluster_with(prints, hosts=False)
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    cluster.start = {"phase": "Pending", "containerStatuses": [{"name": "tool", "state": {"waiting": waiting}}]}
    seen = shell.run(cluster, "lag")
    assert seen.code == 3 and "ImagePullBackOff: no such image" in seen.err
    assert cluster.tool_pods == []


def test_the_wait_for_an_unschedulable_pod_is_limited() -> None:
    cluster = cluster_with(prints, hosts=False)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    cluster.start = {"phase": "Pending", "conditions": [condition]}
    now = [0.0]
    box = toolbox.Toolbox(cluster, cluster, sleep=lambda seconds: now.__setitem__(0, now[0] + 10), clock=lambda: now[0])
    with pytest.raises(Failed, match="Unschedulable: 0/1 nodes"), box.at(resource()):
        pass
    assert now[0] >= toolbox.START_SECONDS and cluster.tool_pods == []


def test_causes_outside_of_the_program_are_named(shell: Shell) -> None:
    for right in ("pods/exec", "pods"):
        cluster = cluster_with(prints)
        cluster.forbidden.add(right)
        seen = shell.run(cluster, "leases")
        assert seen.code == 4 and f"{right} is forbidden" in seen.err
    cluster = cluster_with(prints, hosts=False)
    seen = shell.run(cluster, "leases", "-o", "name")
    assert seen.code == 3 and "use table, json or yaml" in seen.err
    del cluster.objects["statefulsets", "shop", "orders-host"]
    seen = shell.run(cluster, "leases")
    assert seen.code == 1 and "has not created hosts for shop/orders yet" in seen.err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((127, "", "sh: eventconsumer: not found"), "has no `eventconsumer leases`"),
        ((3, "", "No such command 'leases'."), "it is older than this plugin"),
        ((137, "", ""), "for lack of memory"),
        ((143, "", ""), "ended with exit code 143"),
    ],
)
def test_an_end_that_is_no_answer_is_an_error(shell: Shell, answer: Answer, said: str) -> None:
    seen = shell.run(cluster_with(lambda *_: answer), "leases")
    assert seen.code == 3 and said in seen.err


def test_options_are_handed_on(shell: Shell) -> None:
    cluster = cluster_with(prints)
    shell.run(cluster, "files", "-p", "0", "-p", "3", "--since", "2h", "--limit", "0")
    shell.run(cluster, "deadletters", "list", "-p", "0", "--limit", "5")
    shell.run(cluster, "deadletters", "show", "-p", "0", "--sequence-number", "7", "-o", "json")
    shell.run(cluster, "audit", "--hub")
    shell.run(cluster, "certify", "--consumer-group", "checks", "--slow", "-o", "json")
    assert [call.command[1:] for call in cluster.calls] == [
        ("files", "--partition", "0", "--partition", "3", "--since", "2h", "--limit", "0", "-o", "table"),
        ("deadletters", "list", "--partition", "0", "--limit", "5", "-o", "table"),
        ("deadletters", "show", "--partition", "0", "--sequence-number", "7", "-o", "json"),
        ("audit", "--hub", "-o", "table"),
        ("certify", "--consumer-group", "checks", "--slow", "-o", "json"),
    ]


def test_the_pod_is_like_a_host_and_counts_as_none() -> None:
    hosts = hosts_of(resource())
    template = hosts["spec"]["template"]
    pod = toolpod.of_consumer(resource(), hosts, "abc", 60)
    assert pod["metadata"]["name"] == "orders-tool-abc"
    for component in (labels.COMPONENT_HOST, labels.COMPONENT_PROBE):
        wanted = selector(type("Key", (), {"name": "orders"})(), component)
        assert not wanted.items() <= pod["metadata"]["labels"].items()
    assert pod["metadata"]["labels"][labels.LABEL_MANAGED_BY] != labels.MANAGED_BY  # the operator watches those
    (owner,) = pod["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid-of-orders" and not owner.get("controller")
    with_handler = hosts_of(resource(processing=HANDLER))
    assert with_handler["spec"]["template"]["spec"]["containers"][0]["envFrom"]
    assert toolpod.of_consumer(resource(), with_handler, "abc", 60)["spec"] == pod["spec"], "a tool runs no handler"
    (container,), (host,) = pod["spec"]["containers"], template["spec"]["containers"]
    same = ("image", "securityContext", "resources", "volumeMounts", "env")
    assert {key: container[key] for key in same} == {key: host[key] for key in same}
    assert not container.keys() & {"livenessProbe", "readinessProbe", "startupProbe", "ports", "args"}
    for key in ("volumes", "serviceAccountName", "securityContext", "automountServiceAccountToken"):
        assert pod["spec"][key] == template["spec"][key]
    assert pod["spec"]["restartPolicy"] == "Never" and pod["spec"]["activeDeadlineSeconds"] == 60
    assert container["command"] == ["tini", "--", "sleep", "60"]
