"""The operator's edges: flags, pod failures, the log."""

import io
import json
import logging
from typing import Any

import pytest

from eventconsumer_api.shared import logs
from eventconsumer_operator.conditions.messages import pods_failing
from eventconsumer_operator.resource.podfailures import pod_failures
from eventconsumer_operator.settings import parse_settings
from tests.unit.operator.worlds import pod

IMAGES = ["--processor-image", "p", "--spark-image", "s"]


# --- settings ------------------------------------------------------------------------------------------------------


def test_namespaces_are_those_given_once_each() -> None:
    settings = parse_settings([*IMAGES, "--namespace", "a", "--namespace", "b", "--namespace", "a"], {})
    assert settings.namespaces == ("a", "b")


def test_all_namespaces_are_one_scope_and_exclude_single_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_settings([*IMAGES, "--all-namespaces"], {"POD_NAMESPACE": "mine"}).namespaces == ("",)
    with pytest.raises(SystemExit):
        parse_settings([*IMAGES, "--all-namespaces", "--namespace", "a"], {})
    assert "not both" in capsys.readouterr().err


def test_the_lead_needs_a_namespace_for_its_lease(capsys: pytest.CaptureFixture[str]) -> None:
    given = parse_settings([*IMAGES, "--leader-elect", "--namespace", "a"], {"POD_NAMESPACE": "mine"})
    assert given.leader_elect and given.operator_namespace == "mine"
    with pytest.raises(SystemExit):
        parse_settings([*IMAGES, "--leader-elect", "--namespace", "a"], {})
    assert "POD_NAMESPACE" in capsys.readouterr().err


def test_no_namespace_is_served_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(IMAGES, {"POD_NAMESPACE": "mine"})
    assert "no namespace to serve: give --namespace, or --all-namespaces" in capsys.readouterr().err


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--spark-image", "s", "--namespace", "a"], {})
    assert "--processor-image" in capsys.readouterr().err


def test_endpoints_are_safe_unless_the_flag_says_otherwise() -> None:
    assert parse_settings([*IMAGES, "--namespace", "a"], {}).allow_insecure_endpoints is False
    given = parse_settings([*IMAGES, "--namespace", "a", "--allow-insecure-endpoints"], {})
    assert given.allow_insecure_endpoints is True


# --- pods ----------------------------------------------------------------------------------------------------------


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"image": "host:1"} | state]}


@pytest.mark.parametrize(
    ("pods", "sentence"),
    [
        ([pod(phase="Running", **container(state={"running": {}}))], ""),
        ([pod(phase="Pending", **container(state={"waiting": {"reason": "ContainerCreating"}}))], ""),
        (
            [pod(phase="Pending", **container(state={"waiting": {"reason": "ErrImageNeverPull"}}))],
            "pod orders-host-0: ErrImageNeverPull: image host:1",
        ),
        (
            [
                pod(
                    phase="Running",
                    **container(
                        state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                        lastState={"terminated": {"exitCode": 3, "reason": "Error"}},
                    ),
                )
            ],
            "pod orders-host-0: CrashLoopBackOff: the container exited with code 3 (Error); "
            "kubectl logs --previous shows the cause",
        ),
        (
            [
                pod(
                    f"orders-host-{number}",
                    phase="Pending",
                    conditions=[
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/1 nodes are available: 1 Insufficient cpu.",
                        }
                    ],
                )
                for number in range(3)
            ],
            "pod orders-host-0 (and 2 more): Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (
            [pod(phase="Failed", reason="Evicted", message="the node was low on memory")],
            "pod orders-host-0: Evicted: the node was low on memory",
        ),
    ],
)
def test_why_pods_do_not_start(pods: list[Any], sentence: str) -> None:
    assert pods_failing(pod_failures(pods)) == sentence


def test_a_pod_that_is_being_deleted_does_not_count() -> None:
    leaving = pod(phase="Failed", reason="Shutdown")
    leaving["metadata"]["deletionTimestamp"] = "t"
    assert pod_failures([leaving]) == ()


# --- the log -------------------------------------------------------------------------------------------------------


def test_the_log_is_json_without_secrets() -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        logs.configure("INFO")
        handler = root.handlers[0]
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(stream := io.StringIO())
        try:
            raise ValueError("AccountKey=c2VjcmV0;x")
        except ValueError:
            logging.getLogger("x").exception("failed with %s", "SharedAccessKey=abc")
        line = json.loads(stream.getvalue())
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert line["message"] == "failed with SharedAccessKey=***"
    assert "c2VjcmV0" not in stream.getvalue()
    assert line["level"] == "error"
