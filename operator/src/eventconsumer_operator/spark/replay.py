"""A replay of batches: a Job that processes committed batches again, into a separate output. Pure.

The Job's name is a function of the resource's uid and the replay's nonce. A new Job of the same replay continues where
the last one stopped. The status remembers a success, so the replay is not repeated when its Job is deleted.
"""

from dataclasses import dataclass

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.mounts import registry_credential
from eventconsumer_api.spec.spark import BatchReplay, SparkMode
from eventconsumer_api.v1alpha1.status import BatchReplayStatus
from eventconsumer_api.wire.batch import BatchJob, ReplayOf
from eventconsumer_operator.kube.manifest import is_being_deleted, name_of
from eventconsumer_operator.resource.names import batch_replay_name, child_labels
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.spark import native
from eventconsumer_operator.spark.applications import application_of
from eventconsumer_operator.spark.launch import Launch, Parts

KEEP_FINISHED_SECONDS = 3600  # to read the log; a failed replay is tried again afterwards
_LONGEST = 2**31 - 1  # seconds; the maximum of Kubernetes


@dataclass(frozen=True)
class ReplayWait:
    """What a replay waits for.

    Attributes:
        last: The last batch to process again.
        committed: The last committed batch; None: no host has reported it.
    """

    last: int
    committed: int | None = None


def replay_output(output: str, nonce: str) -> str:
    """Output folder of a replay."""
    return f"{output.rstrip('/')}_replays/{nonce}"


def replay_job(observed: Observed, parts: Parts) -> Manifest | None:
    """The Job to create; None: no replay is requested, or it is done, waits, or has a Job."""
    replay, consumer = parts.spark.replay, parts.consumer
    if replay is None or known_success(observed, replay) or waits(observed, replay) is not None:
        return None
    name = batch_replay_name(consumer.key, consumer.uid, replay.nonce)
    if any(name_of(job) == name for job in observed.batch_replays):
        return None
    launch = Launch(
        consumer=consumer,
        spark=parts.spark,
        batch=BatchJob(
            chain=parts.chain,
            resource=consumer.reference,
            application=name,
            number=replay.from_,
            sink=parts.config.sink,
            output=parts.output,
            registry=registry_credential(parts.output.body.registry),
            allow_insecure_endpoints=parts.config.allow_insecure_endpoints,
            storage_suffixes=parts.config.storage_suffixes,
            replay=ReplayOf(nonce=replay.nonce, first=replay.from_, last=replay.to),
        ),
        config=parts.config,
        name=name,
        labels=child_labels(consumer.key, labels.COMPONENT_BATCH_REPLAY),
        image=parts.image,
        # The size of the batches is unknown here: executors, unless the user sets a mode.
        local=parts.spark.mode is SparkMode.LOCAL,
        confs=parts.confs,
    )
    job = native.application(launch)
    seconds = parts.spark.timeout_seconds * (replay.to - replay.from_ + 1)
    changed = {
        "backoffLimit": parts.spark.retry.attempts,
        "activeDeadlineSeconds": min(seconds, _LONGEST),
        "ttlSecondsAfterFinished": KEEP_FINISHED_SECONDS,
        # A driver on a node that died never ends. The next one waits for its claim.
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    return job | {"spec": job["spec"] | changed}


def unwanted_replays(observed: Observed, replay: BatchReplay | None) -> tuple[Manifest, ...]:
    """Running Jobs of replays that the spec no longer requests. A suspension does not end a running Job."""
    consumer = observed.consumer
    wanted = batch_replay_name(consumer.key, consumer.uid, replay.nonce) if replay else ""
    return tuple(
        job
        for job in observed.batch_replays
        if name_of(job) != wanted and not application_of(job).ended and not is_being_deleted(job)
    )


def known_success(observed: Observed, replay: BatchReplay) -> BatchReplayStatus | None:
    """The status of a replay that succeeded; None: it did not."""
    spark = observed.consumer.status.spark
    known = spark.replay if spark else None
    return known if known and known.nonce == replay.nonce and known.state == "Succeeded" else None


def waits(observed: Observed, replay: BatchReplay) -> ReplayWait | None:
    """What the replay waits for; None: nothing."""
    if observed.fleet is None or not observed.fleet.chain:
        return ReplayWait(replay.to)
    committed = observed.fleet.committed_batch
    return ReplayWait(replay.to, committed) if committed < replay.to else None
