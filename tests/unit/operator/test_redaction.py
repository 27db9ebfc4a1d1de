"""Secrets that others write into what the operator reads end there: hosts, kubelets, Jobs and the API server do err."""

import io
import json
import logging

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api import logs
from eventconsumer_api.host_report import Problem
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.status import EventConsumerStatus
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
