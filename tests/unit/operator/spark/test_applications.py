"""SparkApplications of other operators: each state that they can report, in our vocabulary."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.spec.spark import Launcher
from eventconsumer_operator.conditions import messages
from eventconsumer_operator.kube.manifest import (
    APACHE_APPLICATION,
    JOB,
    KUBEFLOW_APPLICATION,
    STORED,
    install_hint,
    watched_kinds,
)
from eventconsumer_operator.spark.applications import (
    APACHE_FINAL,
    APACHE_OUTCOMES,
    APACHE_STATES,
    KUBEFLOW_STATES,
    ApplicationState,
    NoResult,
    Said,
    UnknownState,
    application_of,
    said_by_apache,
    said_by_kubeflow,
)
from eventconsumer_operator.spark.failures import UNANSWERED, missing_operator

DEFINITIONS = Path(__file__).parents[3] / "support/definitions"
CREATED = "2026-11-21T12:00:00Z"
ENDED = "2026-11-21T12:05:00Z"
END = datetime(2026, 11, 21, 12, 5, tzinfo=UTC)
PENDING, RUNNING = ApplicationState.PENDING, ApplicationState.RUNNING
SUCCEEDED, FAILED = ApplicationState.SUCCEEDED, ApplicationState.FAILED


def application(kind: Kind, status: dict[str, Any] | None = None) -> Manifest:
    manifest: Manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": "orders-b7-a2",
            "namespace": "shop",
            "uid": "u",
            "creationTimestamp": CREATED,
            "labels": {"eventconsumer.io/batch": "7", "eventconsumer.io/attempt": "2"},
        },
    }
    return manifest | ({"status": status} if status is not None else {})


def kubeflow(state: str, message: str = "", **status: Any) -> Manifest:
    told = {"state": state} | ({"errorMessage": message} if message else {})
    return application(KUBEFLOW_APPLICATION, {"applicationState": told, **status})


def apache(state: str, *history: str, message: str = "") -> Manifest:
    """In a state, after others; the newest of the history is the state itself."""
    states = [*history, state]
    transitions = {
        str(number): {"currentStateSummary": name, "lastTransitionTime": ENDED, "message": f"it was {name}"}
        for number, name in enumerate(states)
    }
    current = {"currentStateSummary": state, "lastTransitionTime": "2026-11-21T12:06:00.123456Z", "message": message}
    return application(APACHE_APPLICATION, {"currentState": current, "stateTransitionHistory": transitions})


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("", PENDING),
        ("SUBMITTED", PENDING),
        ("RUNNING", RUNNING),
        ("SUCCEEDING", RUNNING),
        ("COMPLETED", SUCCEEDED),
        ("FAILING", RUNNING),
        ("FAILED", FAILED),
        ("SUBMISSION_FAILED", PENDING),
        ("PENDING_RERUN", PENDING),
        ("INVALIDATING", PENDING),
        ("SUSPENDING", RUNNING),
        ("SUSPENDED", PENDING),
        ("RESUMING", PENDING),
        ("UNKNOWN", RUNNING),
    ],
)
def test_states_of_kubeflow(state: str, means: ApplicationState) -> None:
    assert said_by_kubeflow(kubeflow(state)).state is means
    assert KUBEFLOW_STATES[state] is means


def test_the_end_of_a_kubeflow_application_has_a_time_and_a_failure_its_cause() -> None:
    assert said_by_kubeflow(kubeflow("COMPLETED", terminationTime=ENDED)) == Said(SUCCEEDED, finished=END)
    failed = kubeflow("FAILED", "driver container failed with ExitCode: 1, Reason: Error", terminationTime=ENDED)
    assert said_by_kubeflow(failed) == Said(FAILED, "driver container failed with ExitCode: 1, Reason: Error", END)
    # As the operator writes a time that is not known, and before it wrote anything.
    assert said_by_kubeflow(kubeflow("RUNNING", terminationTime=None)).finished is None
    assert said_by_kubeflow(application(KUBEFLOW_APPLICATION)) == Said(PENDING)


def test_the_cause_of_a_waiting_kubeflow_application_is_shown() -> None:
    said = said_by_kubeflow(kubeflow("SUBMISSION_FAILED", "failed to run spark-submit: exceeded quota"))
    assert said == Said(PENDING, "SUBMISSION_FAILED: failed to run spark-submit: exceeded quota")


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("Submitted", PENDING),
        ("ScheduledToRestart", PENDING),
        ("DriverRequested", PENDING),
        ("DriverStarted", RUNNING),
        ("DriverReady", RUNNING),
        ("InitializedBelowThresholdExecutors", RUNNING),
        ("RunningHealthy", RUNNING),
        ("RunningWithPartialCapacity", RUNNING),
        ("RunningWithBelowThresholdExecutors", RUNNING),
        # The operator has not cleaned up yet: the driver may still be there.
        ("Succeeded", RUNNING),
        ("Failed", RUNNING),
        ("SchedulingFailure", RUNNING),
        ("DriverEvicted", RUNNING),
        ("DriverStartTimedOut", RUNNING),
        ("DriverReadyTimedOut", RUNNING),
        ("ExecutorsStartTimedOut", RUNNING),
    ],
)
def test_states_of_apache_before_the_last(state: str, means: ApplicationState) -> None:
    assert said_by_apache(apache(state)).state is means
    assert said_by_apache(apache(state)).finished is None


@pytest.mark.parametrize("final", sorted(APACHE_FINAL))
@pytest.mark.parametrize(
    ("outcome", "means"),
    [
        ("Succeeded", SUCCEEDED),
        ("Failed", FAILED),
        ("SchedulingFailure", FAILED),
        ("DriverEvicted", FAILED),
        ("DriverStartTimedOut", FAILED),
        ("DriverReadyTimedOut", FAILED),
        ("ExecutorsStartTimedOut", FAILED),
    ],
)
def test_the_last_states_of_apache_mean_what_the_history_says(
    final: str, outcome: str, means: ApplicationState
) -> None:
    said = said_by_apache(apache(final, "Submitted", "DriverRequested", "RunningHealthy", outcome))
    assert said == Said(means, "" if means is SUCCEEDED else f"{outcome}: it was {outcome}", END)


def test_the_history_is_in_the_order_of_its_numbers() -> None:
    """Keys are texts: "10" comes after "9"."""
    before = ["Submitted", "DriverRequested", "Failed", "ScheduledToRestart", *["DriverStarted"] * 6, "Succeeded"]
    assert len(before) == 11
    assert said_by_apache(apache("ResourceReleased", *before)).state is SUCCEEDED


def test_an_apache_application_that_was_ended_has_failed_and_none_is_pending() -> None:
    said = said_by_apache(apache("ResourceReleased", "Submitted", "RunningHealthy"))
    assert (said.state, said.message) == (FAILED, NoResult()) and said.finished
    assert said_by_apache(application(APACHE_APPLICATION)) == Said(PENDING)
    no_history = apache("TerminatedWithoutReleaseResources")
    del no_history["status"]["stateTransitionHistory"]
    assert said_by_apache(no_history).state is FAILED


@pytest.mark.parametrize("read", [said_by_kubeflow, said_by_apache])
def test_a_state_of_a_newer_operator_is_waited_for_and_named(read: Any) -> None:
    said = read(kubeflow("Migrating") if read is said_by_kubeflow else apache("Migrating"))
    assert said == Said(PENDING, UnknownState("Migrating"))


@pytest.mark.slow
def test_the_tables_have_each_state_that_apaches_definition_has() -> None:
    (definition,) = yaml.load_all(
        (DEFINITIONS / "spark.apache.org_sparkapplications.yaml").read_text(), yaml.CSafeLoader
    )
    (version,) = [each for each in definition["spec"]["versions"] if each["name"] == "v1"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    known = set(status["currentState"]["properties"]["currentStateSummary"]["enum"])
    assert known == (APACHE_STATES.keys() - {""}) | APACHE_FINAL
    assert APACHE_OUTCOMES.keys() < APACHE_STATES.keys()


def test_an_application_is_read_whatever_it_is_of() -> None:
    found = application_of(kubeflow("FAILED", "out of memory", terminationTime=ENDED))
    assert (found.name, found.batch, found.attempt, found.state) == ("orders-b7-a2", 7, 2, FAILED)
    assert (found.message, found.finished, found.kind) == ("out of memory", END, KUBEFLOW_APPLICATION)
    assert application_of(apache("ResourceReleased", "Succeeded")).finished == END


NOW = datetime.fromisoformat(CREATED) + UNANSWERED


@pytest.mark.parametrize("kind", [KUBEFLOW_APPLICATION, APACHE_APPLICATION])
def test_an_application_that_nobody_touches_has_no_operator(kind: Kind) -> None:
    missing = missing_operator(application(kind), NOW)
    assert missing is not None
    text = messages.waiting(missing)
    assert "no Spark operator handles it" in text and "shop" in text and "spec.spark.launcher: Native" in text
    assert missing_operator(application(kind), NOW - timedelta(seconds=1)) is None
    assert missing_operator(application(kind, {"submissionID": "x"}), NOW) is None


def test_a_job_needs_no_operator() -> None:
    assert missing_operator(application(JOB), NOW) is None


def test_a_missing_kind_is_reported_with_its_installer() -> None:
    assert "Kubeflow Spark operator" in install_hint(KUBEFLOW_APPLICATION)
    assert "sparkapplications.spark.apache.org v1:" in install_hint(APACHE_APPLICATION)
    assert [install_hint(kind) for kind in STORED] == [""] * len(STORED)


def test_only_what_is_enabled_is_watched() -> None:
    assert watched_kinds(()) == STORED
    assert watched_kinds((Launcher.APACHE, Launcher.KUBEFLOW)) == (*STORED, APACHE_APPLICATION, KUBEFLOW_APPLICATION)
