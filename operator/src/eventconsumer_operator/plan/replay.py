"""A replay: a Job whose pod is a host that reads retained events up to an end, into places of the replay's own. Pure.

The Job's name is a function of the resource's uid and the replay's nonce, and a replay that is started again continues
where it stopped; so nothing is read twice into files, whoever starts it how often. That one succeeded is remembered in
the status, and it is not started again when its Job is cleaned up.
"""

import json
from typing import Literal

from eventconsumer_api import labels
from eventconsumer_api.host_config import HostConfig, ReplayConfig
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.status import ReplayStatus
from eventconsumer_api.v1alpha1 import EventConsumerSpec, PositionType, Processing, Replay, StartingPosition
from eventconsumer_operator.kube.manifest import JOB, controller_uid, is_being_deleted, name_of
from eventconsumer_operator.resource.names import child, replay_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import pod_failures
from eventconsumer_operator.resource.pods import host_template
from eventconsumer_operator.spark.applications import ApplicationState, application_of

FOLDER = "_replays"
KEEP_FINISHED_SECONDS = 3600  # long enough to read a log; one that failed is tried again after it
ATTEMPTS = 20  # a pod may be evicted often; what needs a person shows in the status and ends nothing
_RECEIVING = {"source", "max_batch_size", "prefetch", "max_wait_seconds", "buffer_bytes"}  # no handler, no checkpoints
_MESSAGE_LIMIT = 1024


def replay_config(config: HostConfig, replay: Replay) -> HostConfig:
    """What the replay's host is told: as the consumer's hosts, but for where it reads and writes, and its end."""
    place = f"{FOLDER}/{replay.nonce}"
    leases, sink, hub = config.leases, config.sink, config.event_hub
    by_time = StartingPosition(type=PositionType.ENQUEUED_TIME, enqueued_time=replay.from_)
    kept = config.processing.model_dump(
        include={"max_batch_size", "prefetch", "max_wait_seconds", "buffer_bytes", "source"}
    )
    return config.model_copy(
        update={
            "event_hub": hub.model_copy(update={"consumer_group": replay.consumer_group}),
            "leases": leases.model_copy(update={"shared": False}),
            "sink": sink.model_copy(update={"prefix": f"{sink.prefix}/{place}"}),
            "starting_position": by_time if replay.from_ else StartingPosition(),
            "processing": Processing(**kept),  # a handler has had these events already
            "batches": None,
            "replay": ReplayConfig(nonce=replay.nonce, to=replay.to, partitions=replay.partitions),
        }
    )


def replay_job(observed: Observed, spec: EventConsumerSpec, config: HostConfig, image: str) -> Manifest | None:
    """The Job of the replay, or None: none is wanted, it is done, suspended, or the Job exists."""
    replay, consumer = spec.replay, observed.consumer
    if replay is None or spec.suspend or _succeeded(observed, replay):
        return None
    name = replay_name(consumer.key, consumer.uid, replay.nonce)
    if any(name_of(job) == name for job in observed.replays):
        return None
    template = host_template(
        consumer.key,
        spec,
        replay_config(config, replay),
        image,
        config_map=None,
        component=labels.COMPONENT_REPLAY,
    )
    template["spec"]["restartPolicy"] = "Never"
    return child(consumer, JOB, name, labels.COMPONENT_REPLAY) | {
        "spec": {
            "backoffLimit": ATTEMPTS,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": KEEP_FINISHED_SECONDS,
            "template": template,
        }
    }


def unwanted_replays(observed: Observed, spec: EventConsumerSpec) -> tuple[Manifest, ...]:
    """Running Jobs of replays that the spec does not ask for any more. Suspending lets a running one finish."""
    consumer = observed.consumer
    wanted = replay_name(consumer.key, consumer.uid, spec.replay.nonce) if spec.replay else ""
    return tuple(
        job
        for job in observed.replays
        if name_of(job) != wanted and not application_of(job).ended and not is_being_deleted(job)
    )


def replay_status(observed: Observed, spec: EventConsumerSpec) -> ReplayStatus | None:
    """How far the replay is; None where none is wanted."""
    replay, consumer = spec.replay, observed.consumer
    if replay is None:
        return None
    name = replay_name(consumer.key, consumer.uid, replay.nonce)
    job = next((job for job in observed.replays if name_of(job) == name), None)
    before = consumer.status.replay
    known = before if before and before.nonce == replay.nonce else None
    if job is None:
        if known and known.state == "Succeeded":
            return known
        waits = "spec.suspend is true" if spec.suspend else "its Job is being created"
        return ReplayStatus(nonce=replay.nonce, state="Pending", message=waits)
    found = application_of(job)
    files, events = _done(observed, job) or (known.files if known else 0, known.events if known else 0)
    state: Literal["Running", "Succeeded", "Failed"] = "Running"
    message = _waits_for(observed, job)
    if found.state is ApplicationState.SUCCEEDED:
        state, message = "Succeeded", ""
    elif found.state is ApplicationState.FAILED:
        state = "Failed"
        message = (
            f"{found.message}; kubectl logs job/{name} shows why. It is tried again, and goes on where it stopped, "
            "when its Job is gone"
        )
    return ReplayStatus(nonce=replay.nonce, state=state, message=message[:_MESSAGE_LIMIT], files=files, events=events)


def _succeeded(observed: Observed, replay: Replay) -> bool:
    known = observed.consumer.status.replay
    return known is not None and known.nonce == replay.nonce and known.state == "Succeeded"


def _pods(observed: Observed, job: Manifest) -> list[Manifest]:
    return [pod for pod in observed.replay_pods if controller_uid(pod) == job["metadata"]["uid"]]


def _waits_for(observed: Observed, job: Manifest) -> str:
    """What keeps a running replay from going on; empty for nothing."""
    pods = _pods(observed, job)
    reports = [observed.replay_reports[name_of(pod)] for pod in pods if name_of(pod) in observed.replay_reports]
    told = [f"{problem.field}: {problem.message}" for report in reports for problem in report.problems]
    living = [pod for pod in pods if pod.get("status", {}).get("phase") not in {"Failed", "Succeeded"}]
    return "; ".join([*told, *pod_failures(living)])


def _done(observed: Observed, job: Manifest) -> tuple[int, int] | None:
    """Files and events so far: a pod that ended says so in its termination message, one that runs in its report."""
    for pod in _pods(observed, job):
        report = observed.replay_reports.get(name_of(pod))
        if report and report.fleet:
            return report.fleet.files, report.fleet.events
        for container in pod.get("status", {}).get("containerStatuses", []):
            ended = container.get("state", {}).get("terminated", {})
            if ended.get("exitCode") == 0 and (totals := _totals(ended.get("message", ""))):
                return totals
    return None


def _totals(text: str) -> tuple[int, int] | None:
    try:
        found = json.loads(text)
        return int(found["files"]), int(found["events"])
    except (ValueError, KeyError, TypeError):
        return None
