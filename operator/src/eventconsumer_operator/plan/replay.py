"""A replay: a Job whose pod is a host that reads retained events up to an end, into places of the replay's own. Pure.

The Job's name is a function of the resource's uid and the replay's nonce, and a replay that is started again continues
where it stopped; so nothing is read twice into files, whoever starts it how often. That one succeeded is remembered in
the status, and it is not started again when its Job is cleaned up.
"""

from eventconsumer_api import labels
from eventconsumer_api.host_config import HostConfig, ReplayConfig
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.v1alpha1 import EventConsumerSpec, PositionType, Processing, Replay, StartingPosition
from eventconsumer_operator.kube.manifest import JOB, is_being_deleted, name_of
from eventconsumer_operator.resource.names import child, replay_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.pods import host_template
from eventconsumer_operator.spark.applications import application_of

FOLDER = "_replays"
KEEP_FINISHED_SECONDS = 3600  # long enough to read a log; one that failed is tried again after it
ATTEMPTS = 20  # a pod may be evicted often; what needs a person shows in the status and ends nothing
_RECEIVING = {"source", "max_batch_size", "prefetch", "max_wait_seconds", "buffer_bytes"}  # no handler, no checkpoints


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


def _succeeded(observed: Observed, replay: Replay) -> bool:
    known = observed.consumer.status.replay
    return known is not None and known.nonce == replay.nonce and known.state == "Succeeded"
