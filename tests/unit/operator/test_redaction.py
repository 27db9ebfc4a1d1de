"""Secrets and control characters in what the operator reads end there: hosts, kubelets, Jobs and the API server err."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.shared import logs
from eventconsumer_api.shared.terminal import clean
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_api.wire.host_report import HostReport, Problem
from eventconsumer_operator.conditions.events import Recorder
from eventconsumer_operator.conditions.status import make_status, wire
from eventconsumer_operator.errors import Forbidden, OperatorError, Refused, SpecError, Transient
from eventconsumer_operator.kube.manifest import EVENT
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.names import application_name
from eventconsumer_operator.resource.observed import Observed
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.unit.operator.worlds import (
    KEY,
    NOW,
    SETTINGS,
    SPARK,
    SPEC,
    UID,
    batch,
    fleet,
    job,
    observed,
    pod,
    report,
    stateful_set,
)

SECRET = st.text("ABCDEFGHIJabcdefghij0123456789+/", min_size=16, max_size=64).map(lambda text: text + "==")
CARRIERS = (
    "Endpoint=sb://a.b/;SharedAccessKeyName=x;SharedAccessKey={};EntityPath=e",
    "AccountName=a;AccountKey={};BlobEndpoint=http://b",
    "GET /c/b?sv=1&sig={}&se=2 failed",
    "Authorization: Bearer {}",
    '{{"AccountKey": "{}"}}',
    "SharedAccessSignature sr=a&sig={}&se=1",
)
ERRORS: tuple[type[OperatorError], ...] = (Forbidden, Refused, Transient)


def leaky(text: str) -> Observed:
    """A world in which everybody says `text`."""
    told = Problem(field="spec.sink", reason="StorageUnauthorized", message=text)
    waiting = {"image": "x", "state": {"waiting": {"reason": "CreateContainerError", "message": text}}}
    ended = {"exitCode": 1, "reason": "Error", "message": text, "finishedAt": NOW.isoformat()}
    failing = (
        pod("orders-host-0", phase="Pending", containerStatuses=[waiting]),
        pod("orders-host-1", phase="Running", containerStatuses=[{"image": "x", "lastState": {"terminated": ended}}]),
        pod("orders-host-2", phase="Failed", reason="Evicted", message=text),
    )
    for number, each in enumerate(failing):
        each["metadata"]["uid"] = f"uid-{number}"
    failed = job(application_name(KEY, UID, 1, 1), type="Failed", reason="Error", message=text)
    reports = {"orders-host-3": report(fleet=fleet(batch=batch()), problems=(told,))}
    return observed(
        SPEC | SPARK,
        hosts=stateful_set(4, 1),
        pods=failing,
        applications=(failed,),
        drivers=failing[:1],
        reports=reports,
    )


@given(secret=SECRET, carrier=st.sampled_from(CARRIERS), error=st.sampled_from(ERRORS), padding=st.integers(0, 1100))
async def test_status_and_events_say_no_secret(
    secret: str, carrier: str, error: type[OperatorError], padding: int
) -> None:
    text = "x" * padding + " " + carrier.format(secret)
    world = leaky(text)
    for errors in ((), (error(text),), (SpecError("spec.sink", text),)):
        plan = None if any(isinstance(each, SpecError) for each in errors) else make_plan(world, SETTINGS)
        status = make_status(world, plan, errors, SETTINGS)
        api = FakeKubernetes()
        await Recorder(api).record(world, status)
        events: tuple[Manifest, ...] = (await api.list(EVENT, KEY.namespace)).items
        assert events
        said = json.dumps([wire(status), events])
        # Not even a beginning of it, where a long message was cut.
        assert secret[:12] not in said
        assert wire(status) != wire(EventConsumerStatus())


ATTACK = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202egnp\u2066\u2028\x7f"


@pytest.mark.parametrize("errors", [(), (Refused(ATTACK),), (SpecError("spec.sink", ATTACK),)], ids=str)
async def test_status_and_events_control_no_terminal(errors: tuple[OperatorError, ...]) -> None:
    world = leaky(ATTACK)
    plan = None if errors and isinstance(errors[0], SpecError) else make_plan(world, SETTINGS)
    status = make_status(world, plan, errors, SETTINGS)
    api = FakeKubernetes()
    await Recorder(api).record(world, status)
    said = texts([wire(status), *(await api.list(EVENT, KEY.namespace)).items])
    assert sum("owned" in each for each in said) >= 2
    assert [each for each in said if clean(each) != each] == []


def test_a_report_of_a_host_controls_no_terminal() -> None:
    problem = {"field": ATTACK, "reason": ATTACK, "message": ATTACK}
    texts_of_fleet = {"owners": {ATTACK: ATTACK}, "gaps": {ATTACK: ATTACK}, "committedReason": ATTACK}
    document = json.loads(report(fleet=fleet()).model_dump_json(by_alias=True))
    document |= {"owner": ATTACK, "problems": [problem], "fleet": document["fleet"] | texts_of_fleet}
    read = HostReport.model_validate_json(json.dumps(document))
    said = texts(read.model_dump(mode="json"))
    assert sum("owned" in each for each in said) >= 5
    assert [each for each in said if clean(each) != each] == []


def texts(document: object) -> list[str]:
    """All texts of a document, names of fields too."""
    match document:
        case dict():
            return [text for key, value in document.items() for text in (key, *texts(value))]
        case list():
            return [text for each in document for text in texts(each)]
        case str():
            return [document]
        case _:
            return []


@given(secret=SECRET, carrier=st.sampled_from(CARRIERS))
def test_the_log_says_no_secret(secret: str, carrier: str) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        logs.configure("DEBUG")
        handler = root.handlers[0]
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(stream := io.StringIO())
        try:
            raise Refused(carrier.format(secret))
        except Refused:
            logging.getLogger("x").exception("failed: %s", carrier.format(secret))
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert "failed" in stream.getvalue()
    assert secret not in stream.getvalue()
