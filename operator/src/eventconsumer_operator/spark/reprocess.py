"""Reprocessing of batches: a Job that processes committed batches again, into a separate output. Pure.

The Job's name is a function of the resource's uid and the name in the spec. A new Job of the same name continues where
the last one stopped. The status remembers a success, so reprocessing is not repeated when its Job is deleted.
"""

from dataclasses import dataclass

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.mounts import registry_credential
from eventconsumer_api.spec.spark import Reprocess, SparkMode
from eventconsumer_api.v1alpha1.status import ReprocessStatus
from eventconsumer_api.wire.batch import BatchJob, ReprocessOf
from eventconsumer_operator.kube.manifest import is_being_deleted, name_of
from eventconsumer_operator.resource.names import child_labels, reprocess_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.spark import native
from eventconsumer_operator.spark.applications import application_of
from eventconsumer_operator.spark.launch import Launch, Parts

KEEP_FINISHED_SECONDS = 3600  # to read the log; a failed one is tried again afterwards
_LONGEST = 2**31 - 1  # seconds; the maximum of Kubernetes


@dataclass(frozen=True)
class ReprocessWait:
    """What reprocessing waits for.

    Attributes:
        last: The last batch to process again.
        committed: The last committed batch; None: no host has reported it.
    """

    last: int
    committed: int | None = None


def reprocess_output(output: str, name: str) -> str:
    """Output folder of reprocessing."""
    return f"{output.rstrip('/')}_reprocess/{name}"


def reprocess_job(observed: Observed, parts: Parts) -> Manifest | None:
    """The Job to create; None: no reprocessing is requested, or it is done, waits, or has a Job."""
    reprocess, consumer = parts.spark.reprocess, parts.consumer
    if reprocess is None or known_success(observed, reprocess) or waits(observed, reprocess) is not None:
        return None
    name = reprocess_name(consumer.key, consumer.uid, reprocess.name)
    if any(name_of(job) == name for job in observed.reprocess_jobs):
        return None
    launch = Launch(
        consumer=consumer,
        spark=parts.spark,
        batch=BatchJob(
            chain=parts.chain,
            resource=consumer.reference,
            application=name,
            number=reprocess.from_,
            sink=parts.config.sink,
            output=parts.output,
            registry=registry_credential(parts.output.body.registry),
            body=parts.config.body,
            allow_insecure_endpoints=parts.config.allow_insecure_endpoints,
            storage_suffixes=parts.config.storage_suffixes,
            reprocess=ReprocessOf(name=reprocess.name, first=reprocess.from_, last=reprocess.to),
        ),
        config=parts.config,
        name=name,
        labels=child_labels(consumer.key, labels.COMPONENT_REPROCESS),
        image=parts.image,
        # The size of the batches is unknown here: executors, unless the user sets a mode.
        local=parts.spark.mode is SparkMode.LOCAL,
        confs=parts.confs,
    )
    job = native.application(launch)
    seconds = parts.spark.timeout_seconds * (reprocess.to - reprocess.from_ + 1)
    changed = {
        "backoffLimit": parts.spark.retry.attempts,
        "activeDeadlineSeconds": min(seconds, _LONGEST),
        "ttlSecondsAfterFinished": KEEP_FINISHED_SECONDS,
        # A driver on a node that died never ends. The next one waits for its claim.
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    return job | {"spec": job["spec"] | changed}


def unwanted_reprocess(observed: Observed, reprocess: Reprocess | None) -> tuple[Manifest, ...]:
    """Running Jobs that the spec no longer requests. A suspension does not end a running Job."""
    consumer = observed.consumer
    wanted = reprocess_name(consumer.key, consumer.uid, reprocess.name) if reprocess else ""
    return tuple(
        job
        for job in observed.reprocess_jobs
        if name_of(job) != wanted and not application_of(job).ended and not is_being_deleted(job)
    )


def known_success(observed: Observed, reprocess: Reprocess) -> ReprocessStatus | None:
    """The status of reprocessing that succeeded; None: it did not."""
    spark = observed.consumer.status.spark
    known = spark.reprocess if spark else None
    return known if known and known.name == reprocess.name and known.state == "Succeeded" else None


def waits(observed: Observed, reprocess: Reprocess) -> ReprocessWait | None:
    """What reprocessing waits for; None: nothing."""
    if observed.fleet is None or not observed.fleet.chain:
        return ReprocessWait(reprocess.to)
    committed = observed.fleet.committed_batch
    return ReprocessWait(reprocess.to, committed) if committed < reprocess.to else None
