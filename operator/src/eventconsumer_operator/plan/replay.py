"""A replay of events: a Job whose pod is a host that reads retained events up to an end, into its own folder. Pure.

The Job's name is a function of the resource's uid and the replay's name. A new Job of the same replay continues where
the last one stopped, so no event is written twice. The status remembers a success, so the replay is not repeated when
its Job is deleted.
"""

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.v1alpha1 import (
    CheckpointRule,
    EventConsumerSpec,
    HandlerMode,
    PositionType,
    Replay,
    StartingPosition,
)
from eventconsumer_api.wire.host_config import HostConfig, ReplayConfig
from eventconsumer_operator.kube.manifest import JOB, is_being_deleted, name_of
from eventconsumer_operator.resource.names import child, replay_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.pods import host_template
from eventconsumer_operator.spark.applications import application_of

FOLDER = "_replays"
KEEP_FINISHED_SECONDS = 3600  # to read the log; a failed replay is tried again afterwards
ATTEMPTS = 20  # pods may be evicted often; problems that need a user are in the status
_NO_HANDLER = {"handler": None, "handler_mode": HandlerMode.PASS_THROUGH, "image": None, "runtime_metrics": False}


def replay_config(config: HostConfig, replay: Replay) -> HostConfig:
    """The configuration of the replay's host: that of the hosts with another consumer group, folder and end."""
    place = f"{FOLDER}/{replay.name}"
    leases, sink, hub = config.leases, config.sink, config.event_hub
    by_time = StartingPosition(type=PositionType.ENQUEUED_TIME, enqueued_time=replay.from_)
    # The handler has already processed these events; but one that transforms them decides what is in files.
    transforms = config.processing.handler_mode is HandlerMode.TRANSFORM
    changed = {"checkpoint": CheckpointRule()} | ({} if transforms else _NO_HANDLER)
    return config.model_copy(
        update={
            "event_hub": hub.model_copy(update={"consumer_group": replay.consumer_group}),
            "leases": leases.model_copy(update={"shared": False}),
            "sink": sink.model_copy(update={"prefix": f"{sink.prefix}/{place}"}),
            "starting_position": by_time if replay.from_ else StartingPosition(),
            "processing": config.processing.model_copy(update=changed),
            "batches": None,
            "table": None,
            "notices": None,
            "retention": None,
            "replay": ReplayConfig(name=replay.name, to=replay.to, partitions=replay.partitions),
        }
    )


def replay_image(spec: EventConsumerSpec, host_image: str, processor_image: str) -> str:
    """The image of the replay: that of the hosts, with the handler, only if the handler transforms events.

    Args:
        spec: The consumer's spec.
        host_image: Image of the hosts.
        processor_image: The administrator's image, without a handler.
    """
    return host_image if spec.processing.handler_mode is HandlerMode.TRANSFORM else processor_image


def replay_job(observed: Observed, spec: EventConsumerSpec, config: HostConfig, image: str) -> Manifest | None:
    """The Job to create; None: no replay is requested, or it is done, suspended, or has a Job."""
    replay, consumer = spec.replay, observed.consumer
    if replay is None or spec.suspend or _succeeded(observed, replay):
        return None
    name = replay_name(consumer.key, consumer.uid, replay.name)
    if any(name_of(job) == name for job in observed.replays):
        return None
    template = host_template(
        consumer.key,
        spec,
        replay_config(config, replay),
        image,
        config_map=None,
        component=labels.COMPONENT_REPLAY,
        handler=spec.processing if spec.processing.handler_mode is HandlerMode.TRANSFORM else None,
    )
    template["spec"]["restartPolicy"] = "Never"
    return child(consumer, JOB, name, labels.COMPONENT_REPLAY) | {
        "spec": {
            "backoffLimit": ATTEMPTS,
            "completions": 1,
            "parallelism": 1,
            # A pod on a node that died never ends. Two hosts of a replay are fenced as two hosts are.
            "podReplacementPolicy": "TerminatingOrFailed",
            "ttlSecondsAfterFinished": KEEP_FINISHED_SECONDS,
            "template": template,
        }
    }


def unwanted_replays(observed: Observed, spec: EventConsumerSpec) -> tuple[Manifest, ...]:
    """Running Jobs of replays that the spec no longer requests. A suspension does not end a running Job."""
    consumer = observed.consumer
    wanted = replay_name(consumer.key, consumer.uid, spec.replay.name) if spec.replay else ""
    return tuple(
        job
        for job in observed.replays
        if name_of(job) != wanted and not application_of(job).ended and not is_being_deleted(job)
    )


def _succeeded(observed: Observed, replay: Replay) -> bool:
    known = observed.consumer.status.replay
    return known is not None and known.name == replay.name and known.state == "Succeeded"
