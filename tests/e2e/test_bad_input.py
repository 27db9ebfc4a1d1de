"""Bad input on the real cluster: a condition names field and remedy, and becomes good when the input is corrected."""

import json
from collections.abc import Callable, Iterator

import pytest

from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import Demo
from tests.e2e.consumers import GOOD_NAMESPACE, GOOD_STORAGE, consumer, create_hub
from tests.e2e.waiting import condition, wait_for

HUB_FIELD = "spec.eventHub.authentication.connectionStringSecretRef"
WRONG_KEY = "U0VDUkVULXdyb25nLWtleQ=="

# case -> (hub connection string or None, storage connection string, field, reason). Each has a hub of its own name,
# since two consumers of one consumer group would displace each other; `wrong-hub` is never created.
CASES: dict[str, tuple[str | None, str, str, str]] = {
    "garbled": ("Endpoint", GOOD_STORAGE, HUB_FIELD, "ConnectionStringInvalid"),
    "wrong-hub": (GOOD_NAMESPACE, GOOD_STORAGE, "spec.eventHub.name", "EventHubNotFound"),
    "no-key": (None, GOOD_STORAGE, HUB_FIELD, "SecretKeyMissing"),
    "wrong-key": (GOOD_NAMESPACE.replace("SAS_KEY_VALUE", WRONG_KEY), GOOD_STORAGE, HUB_FIELD, "EventHubUnauthorized"),
    "no-storage": (
        GOOD_NAMESPACE,
        GOOD_STORAGE.replace("blob.svc", "nowhere.svc"),
        "spec.checkpointStore",
        "StorageUnreachable",
    ),
}


@pytest.fixture(scope="module")
def mistakes(demo: Demo) -> Iterator[Demo]:
    """All wrong consumers at once."""
    for name, (hub, storage, _, _) in CASES.items():
        if name != "wrong-hub":
            create_hub(demo, name)
        demo.cluster.secret(f"{name}-hub", **({"connectionString": hub} if hub else {"other": "value"}))
        demo.cluster.secret(f"{name}-storage", connectionString=storage)
        demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(consumer(name)))
    yield demo
    demo.cluster.kubectl("delete", "eventconsumer", *CASES, "--ignore-not-found")


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_reported_with_its_field(mistakes: Demo, name: str) -> None:
    *_, field, reason = CASES[name]
    stalled = wait_for(mistakes, name, "Stalled", "True")
    assert stalled["reason"] == reason, stalled
    assert field in stalled["message"], stalled
    assert condition(mistakes, name, "Ready")["status"] == "False"


def test_pods_do_not_crash_loop_and_leak_nothing(mistakes: Demo) -> None:
    pods = mistakes.cluster.get("pods", "-l", "app.kubernetes.io/component=host")["items"]
    for pod in pods:
        for state in pod["status"].get("containerStatuses", []):
            assert state["restartCount"] == 0, pod["metadata"]["name"]
    everything = mistakes.cluster.kubectl("get", "eventconsumers,events,pods,configmaps", "-o", "yaml")
    logs = "".join(mistakes.cluster.kubectl("logs", f"{name}-host-0") for name in CASES)
    for secret in (WRONG_KEY.rstrip("="), "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6"):
        assert secret not in everything
        assert secret not in logs


CORRECTIONS: dict[str, Callable[[Demo], None]] = {
    "no-key": lambda demo: demo.cluster.secret("no-key-hub", connectionString=GOOD_NAMESPACE),
    "garbled": lambda demo: demo.cluster.secret("garbled-hub", connectionString=f"{GOOD_NAMESPACE};EntityPath=garbled"),
    "wrong-key": lambda demo: demo.cluster.secret("wrong-key-hub", connectionString=GOOD_NAMESPACE),
    "wrong-hub": lambda demo: create_hub(demo, "wrong-hub"),
    "no-storage": lambda demo: demo.cluster.secret("no-storage-storage", connectionString=GOOD_STORAGE),
}


@pytest.fixture(scope="module")
def corrected(mistakes: Demo) -> Demo:
    """All of them corrected."""
    for correct in CORRECTIONS.values():
        correct(mistakes)
    return mistakes


@pytest.mark.parametrize("name", CASES)
def test_it_becomes_ready_when_corrected(corrected: Demo, name: str) -> None:
    wait_for(corrected, name, "Ready", "True")
    assert condition(corrected, name, "Stalled")["status"] == "False"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("checkpointStore", "container"), "Bad_Container", "spec.checkpointStore.container"),
        (("sink", "container"), "a--b", "spec.sink.container"),
        (("sink", "roll"), {"maxSeconds": 0}, "spec.sink.roll.maxSeconds"),
        (("eventHub", "authentication"), {}, "exactly one of connectionStringSecretRef and workloadIdentity"),
        (("scaling",), {"mode": "Fixed"}, "scaling.replicas is required with mode: Fixed"),
        (("typo",), 1, "typo"),
    ],
)
def test_the_api_server_refuses_and_names_the_field(
    demo: Demo, path: tuple[str, ...], value: object, message: str
) -> None:
    resource = consumer("refused")
    target = resource["spec"]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(DemoError) as refused:
        demo.cluster.kubectl("apply", "--validate=strict", "-f", "-", stdin=json.dumps(resource))
    assert message in refused.value.detail
