"""A replay of batches: one Job that processes committed batches again, into an output of its own. Pure.

The Job's name is a function of the resource's uid and the replay's nonce, and one that is started again continues where
it stopped. That it succeeded is remembered in the status, and it is not started again when its Job is cleaned up.
"""

import json
from typing import Literal

from eventconsumer_api import labels
from eventconsumer_api.batch import BatchJob, ReplayOf
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.redaction import redact
from eventconsumer_api.spark import BatchReplay, Spark, SparkMode
from eventconsumer_api.status import BatchReplayStatus
from eventconsumer_operator.kube.manifest import controller_uid, is_being_deleted, name_of
from eventconsumer_operator.resource.names import batch_replay_name, child_labels
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import pod_failures, termination_message
from eventconsumer_operator.spark import native
from eventconsumer_operator.spark.applications import ApplicationState, application_of
from eventconsumer_operator.spark.launch import Launch, Parts

KEEP_FINISHED_SECONDS = 3600  # long enough to read a log; one that failed is tried again after it
_MESSAGE_LIMIT = 1024
_LONGEST = 2**31 - 1  # seconds, as Kubernetes counts them


def replay_output(output: str, nonce: str) -> str:
    """Folder of a replay's result."""
    return f"{output.rstrip('/')}_replays/{nonce}"


def replay_job(observed: Observed, parts: Parts) -> Manifest | None:
    """The Job of the replay, or None: none is wanted, it is done, it waits, or the Job exists."""
    replay, consumer = parts.spark.replay, parts.consumer
    if replay is None or _known_success(observed, replay) or _waits(observed, replay):
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
    }
    return job | {"spec": job["spec"] | changed}


def unwanted_replays(observed: Observed, replay: BatchReplay | None) -> tuple[Manifest, ...]:
    """Running Jobs of replays that the spec does not ask for any more. Suspending lets a running one finish."""
    consumer = observed.consumer
    wanted = batch_replay_name(consumer.key, consumer.uid, replay.nonce) if replay else ""
    return tuple(
        job
        for job in observed.batch_replays
        if name_of(job) != wanted and not application_of(job).ended and not is_being_deleted(job)
    )


def batch_replay_status(observed: Observed, spark: Spark, *, suspended: bool) -> BatchReplayStatus | None:
    """How far the replay is; None where none is wanted."""
    replay, consumer = spark.replay, observed.consumer
    if replay is None or spark.output is None:
        return None
    name = batch_replay_name(consumer.key, consumer.uid, replay.nonce)
    output = replay_output(spark.output.path, replay.nonce)
    job = next((job for job in observed.batch_replays if name_of(job) == name), None)
    known = _known_success(observed, replay)
    if job is None:
        if known:
            return known
        message = "spec.suspend is true" if suspended else _waits(observed, replay) or "its Job is being created"
        return BatchReplayStatus(nonce=replay.nonce, state="Pending", message=message, output=output)
    found = application_of(job)
    pods = [pod for pod in observed.batch_replay_pods if controller_uid(pod) == found.uid]
    state: Literal["Running", "Succeeded", "Failed"] = "Running"
    living = [pod for pod in pods if pod.get("status", {}).get("phase") not in {"Failed", "Succeeded"}]
    failed = [text for pod in pods if pod not in living and (text := termination_message(pod))]
    message = "; ".join([*(f"an attempt failed: {text}" for text in failed[-1:]), *pod_failures(living)])
    batches, rows = 0, 0
    if found.state is ApplicationState.SUCCEEDED:
        state, message = "Succeeded", ""
        before = (known.batches, known.rows) if known else (0, 0)
        batches, rows = next((totals for pod in pods if (totals := _totals(termination_message(pod)))), before)
    elif found.state is ApplicationState.FAILED:
        state = "Failed"
        message = (
            f"{'; '.join([found.message, *failed[-1:]])}; kubectl logs job/{name} shows more. It is tried again, and "
            "goes on where it stopped, when its Job is gone"
        )
    return BatchReplayStatus(
        nonce=replay.nonce,
        state=state,
        message=redact(message)[:_MESSAGE_LIMIT],
        output=output,
        batches=batches,
        rows=rows,
    )


def _known_success(observed: Observed, replay: BatchReplay) -> BatchReplayStatus | None:
    spark = observed.consumer.status.spark
    known = spark.replay if spark else None
    return known if known and known.nonce == replay.nonce and known.state == "Succeeded" else None


def _waits(observed: Observed, replay: BatchReplay) -> str:
    """What keeps the replay from being started; empty for nothing."""
    if observed.fleet is None or not observed.fleet.chain:
        return "no host of this version has told yet which batches are committed"
    if observed.fleet.committed_batch < replay.to:
        last = observed.fleet.committed_batch
        return f"batch {replay.to} (spec.spark.replay.to) is not committed yet: the last that is is {last}"
    return ""


def _totals(text: str) -> tuple[int, int] | None:
    try:
        found = json.loads(text)
        return int(found["batches"]), int(found["rows"])
    except (ValueError, KeyError, TypeError):
        return None
