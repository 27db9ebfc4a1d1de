"""Replays: when there is a Job, what is in it, and what the status says about it."""

import dataclasses
import json
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.labels import CONFIG_ENV
from eventconsumer_api.v1alpha1.status import EventConsumerStatus, ReplayStatus
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import HostReport, Problem
from eventconsumer_operator.conditions.replaystatus import replay_status
from eventconsumer_operator.kube.manifest import name_of
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.plan.config import host_config
from eventconsumer_operator.plan.replay import replay_job, unwanted_replays
from eventconsumer_operator.resource.names import replay_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.spec import parse_spec
from tests.unit.operator.plan.test_plan import restricted
from tests.unit.operator.worlds import KEY, SETTINGS, SPEC, UID, fleet, job, observed, pod, report, spec_with

NAME = replay_name(KEY, UID, "may")
REPLAY = SPEC | {
    "replay": {
        "name": "may",
        "consumerGroup": "again",
        "from": "2026-05-01T00:00:00Z",
        "to": "2026-06-01T00:00:00Z",
        "partitions": ["1", "3"],
    }
}


def world(
    spec: dict[str, Any] = REPLAY,
    jobs: tuple[Manifest, ...] = (),
    pods: tuple[Manifest, ...] = (),
    reports: dict[str, HostReport] | None = None,
    before: ReplayStatus | None = None,
) -> Observed:
    found = observed(spec, status=EventConsumerStatus(replay=before))
    return dataclasses.replace(found, replays=jobs, replay_pods=pods, replay_reports=reports or {})


def made(found: Observed) -> Manifest | None:
    spec = parse_spec(found.consumer.spec)
    return replay_job(found, spec, host_config(found.consumer, spec, SETTINGS), "host:1")


def pod_and_config(spec: dict[str, Any]) -> tuple[dict[str, Any], HostConfig]:
    """The pod of the Job that is made for a spec, and the configuration of its host."""
    manifest = made(world(spec))
    assert manifest is not None and name_of(manifest) == NAME == "orders-01234567-r-may"
    pod = manifest["spec"]["template"]["spec"]
    (text,) = [each["value"] for each in pod["containers"][0]["env"] if each["name"] == CONFIG_ENV]
    return pod, HostConfig.model_validate_json(text)


def status(found: Observed) -> ReplayStatus:
    made = replay_status(found, parse_spec(found.consumer.spec))
    assert made is not None
    return made


def of_job(name: str = "replay-0", **state: Any) -> Manifest:
    found = pod(name, **state)
    owner = {"kind": "Job", "name": NAME, "uid": f"uid-of-{NAME}", "controller": True}
    return found | {"metadata": found["metadata"] | {"ownerReferences": [owner]}}


def test_the_host_of_the_job_reads_and_writes_in_places_of_its_own() -> None:
    header = {"headerSecretRef": {"name": "hooks", "key": "token"}}
    notices = {"url": "https://hooks.shop.example/files", "authentication": header}
    kept = spec_with("sink.retention", {"days": 1}, spec_with("sink.notices", notices, REPLAY))
    pod, config = pod_and_config(kept)
    restricted(pod)
    assert (pod["restartPolicy"], pod["automountServiceAccountToken"]) == ("Never", False)
    assert {volume["name"] for volume in pod["volumes"]} == {"tmp", "event-hub", "checkpoint-store", "sink"}
    assert config.event_hub.consumer_group == "again"
    assert config.leases.location.prefix is None  # the host adds the replay's folder
    assert config.sink.prefix == "shop/orders/_replays/may"
    assert config.starting_position.type == "EnqueuedTime"
    assert str(config.starting_position.enqueued_time) == "2026-05-01 00:00:00+00:00"
    assert config.replay is not None
    assert (config.replay.name, config.replay.partitions) == ("may", ["1", "3"])
    assert str(config.replay.to) == "2026-06-01 00:00:00+00:00"
    assert config.batches is None and config.notices is None and config.retention is None


def test_without_times_all_retained_events_are_read_and_no_handler_is_called() -> None:
    processing = {"handler": "shop:Shop", "handlerMode": "Replace", "image": "shop:1", "bufferBytes": 20_000_000}
    spec = spec_with("replay", {"name": "may", "consumerGroup": "again"}) | {"processing": processing}
    _, config = pod_and_config(spec)
    assert config.starting_position.type == "Earliest"
    assert config.replay is not None
    assert (config.replay.to, config.replay.partitions) == (None, [])
    assert (config.processing.handler, config.processing.handler_mode) == (None, "PassThrough")
    assert config.processing.buffer_bytes == 20_000_000


def test_a_handler_that_transforms_events_transforms_replayed_ones_too() -> None:
    """The files would else hold the events as they were published."""
    processing = {
        "handler": "shop:Shop",
        "handlerMode": "Transform",
        "image": "shop:1",
        "handlerAttempts": 3,
        "runtimeMetrics": True,
        "checkpoint": {"policy": "Events"},
        "env": [{"name": "APP_CURRENCY", "value": "EUR"}],
    }
    spec = spec_with("replay", {"name": "may", "consumerGroup": "again"}) | {"processing": processing}
    _, config = pod_and_config(spec)
    assert (config.processing.handler, config.processing.handler_mode) == ("shop:Shop", "Transform")
    consumer = world(spec).consumer
    own, replayed = host_config(consumer, parse_spec(consumer.spec), SETTINGS).processing, config.processing
    different = {name for name in type(own).model_fields if getattr(own, name) != getattr(replayed, name)}
    assert different == {"checkpoint"}, "a replay has no checkpoints; each other field is that of the hosts"
    for mode, image in (("Transform", "shop:1"), ("PassThrough", SETTINGS.processor_image)):
        asked = spec | {"processing": processing | {"handlerMode": mode}}
        plan = make_plan(world(asked), dataclasses.replace(SETTINGS, handler_image_prefixes=("shop",)))
        (replay,) = (job for job in plan.jobs if name_of(job) == NAME)
        (container,) = replay["spec"]["template"]["spec"]["containers"]
        assert container["image"] == image
        assert ({"name": "APP_CURRENCY", "value": "EUR"} in container["env"]) is (mode == "Transform")


def test_when_there_is_no_job() -> None:
    assert made(world(SPEC)) is None
    assert made(world(jobs=(job(NAME),))) is None
    assert made(world(spec_with("suspend", True, REPLAY))) is None  # noqa: FBT003
    assert made(world(before=ReplayStatus(name="may", state="Succeeded"))) is None
    assert made(world(before=ReplayStatus(name="may", state="Failed"))) is not None  # its Job is gone: tried again
    assert made(world(before=ReplayStatus(name="april", state="Succeeded"))) is not None
    assert made(world(jobs=(job(replay_name(KEY, UID, "april")),))) is not None


def test_a_running_job_goes_with_its_name() -> None:
    old, new = job(replay_name(KEY, UID, "april")), job(NAME)
    done = job(replay_name(KEY, UID, "march"), type="Complete")
    found = world(jobs=(old, new, done))
    assert unwanted_replays(found, parse_spec(REPLAY)) == (old,)
    assert unwanted_replays(found, parse_spec(SPEC)) == (old, new)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 4096,
        '{"files":Infinity,"events":1}',
        '{"files":-1,"events":1}',
        f'{{"files":1,"events":{2**63}}}',
    ],
)
def test_a_termination_message_of_any_form_is_numbers_or_nothing(text: str) -> None:
    ended = {"state": {"terminated": {"exitCode": 0, "message": text}}}
    pods = (of_job(phase="Succeeded", containerStatuses=[ended]),)
    found = status(world(jobs=(job(NAME, type="Complete"),), pods=pods))
    assert (found.state, found.files, found.events) == ("Succeeded", 0, 0)


def test_the_status_from_beginning_to_end() -> None:
    assert replay_status(world(SPEC), parse_spec(SPEC)) is None
    pending = status(world())
    assert (pending.state, pending.message) == ("Pending", "the Job is being created")
    reports = {"replay-0": report(fleet=fleet(files=3))}
    running = status(world(jobs=(job(NAME),), pods=(of_job(phase="Running"),), reports=reports))
    assert running == ReplayStatus(name="may", state="Running", files=3, events=100)
    assert status(world(jobs=(job(NAME),), before=running)) == running  # its pod was evicted
    ended = {"state": {"terminated": {"exitCode": 0, "message": json.dumps({"files": 7, "events": 700})}}}
    pods = (of_job(phase="Succeeded", containerStatuses=[ended]),)
    done = status(world(jobs=(job(NAME, type="Complete"),), pods=pods))
    assert done == ReplayStatus(name="may", state="Succeeded", files=7, events=700)
    assert status(world(before=done)) == done  # its Job was cleaned up
    assert status(world(spec_with("suspend", True, REPLAY))).message == "spec.suspend is true"  # noqa: FBT003


def test_the_status_names_the_reason_of_a_wait_or_failure() -> None:
    problem = Problem(field="spec.eventHub.consumerGroup", reason="EventHubNotFound", message="no group again")
    pods = (of_job(phase="Running"), of_job("replay-1", phase="Failed"))
    stuck = status(world(jobs=(job(NAME),), pods=pods, reports={"replay-0": report(problems=(problem,))}))
    assert (stuck.state, stuck.message) == ("Running", "spec.eventHub.consumerGroup: no group again")
    image = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    waiting = status(world(jobs=(job(NAME),), pods=(of_job(phase="Pending", containerStatuses=[image]),)))
    assert "ImagePullBackOff: no such image" in waiting.message
    failed = status(world(jobs=(job(NAME, type="Failed", reason="BackoffLimitExceeded", message="too often"),)))
    assert failed.state == "Failed"
    assert f"BackoffLimitExceeded: too often; kubectl logs job/{NAME}" in failed.message
