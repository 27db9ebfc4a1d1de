"""Spark, launched natively: a Job whose pod is the driver, one for each batch. Pure.

A batch is started once: the Job's name is a function of the resource's uid and the batch's number, so a second
operator or a repeated reconcile finds it taken. What was done is read from the batch's commit record (through the
leading host) and never from Jobs or pods; a Job that somebody deleted while its batch is open is therefore started
again, and a finished one is not.
"""

from typing import Any

from eventconsumer_api import labels
from eventconsumer_api.batch import BatchJob
from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.spark import Spark, SparkPod
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.jobs import JobState, state_of
from eventconsumer_operator.manifest import JOB, Manifest, is_being_deleted
from eventconsumer_operator.observed import Observed
from eventconsumer_operator.plan.config import SINK_SECRET
from eventconsumer_operator.plan.names import child, child_labels, job_name
from eventconsumer_operator.plan.pods import (
    WORKLOAD_IDENTITY_LABEL,
    container_security,
    downward,
    pod_security,
    secret_mount,
    secret_volume,
)

# Long enough to read a log. A failed Job that goes is started again, so a batch that failed is tried once an hour.
KEEP_FINISHED_SECONDS = 3600
_DRIVER_GRACE_SECONDS = 30
# Spark's memory outside the heap: 40 % for Python programs, 384 MiB at least.
_OVERHEAD_FACTOR = 0.4
_OVERHEAD_MIN_MIB = 384


def batch_job(observed: Observed, spec: EventConsumerSpec, config: HostConfig, image: str) -> Manifest | None:
    """The Job of the open batch, or None: no Spark, suspended, no open batch, or the Job exists."""
    spark, fleet = spec.spark, observed.fleet
    if spark is None or not spark.enabled or spark.output is None or spec.suspend or fleet is None:
        return None
    if fleet.open_batch is None:
        return None
    consumer = observed.consumer
    name = job_name(consumer.key, consumer.uid, fleet.open_batch.number)
    if any(job["metadata"]["name"] == name for job in observed.jobs):
        return None
    batch = BatchJob(
        resource=consumer.reference,
        application=name,
        number=fleet.open_batch.number,
        sink=config.sink,
        output=spark.output,
    )
    own = {labels.LABEL_BATCH: str(batch.number)}
    manifest = child(consumer, JOB, name, labels.COMPONENT_SPARK)
    manifest["metadata"]["labels"] |= own
    pod_labels = child_labels(consumer.key, labels.COMPONENT_SPARK) | own
    return manifest | {
        "spec": {
            # One attempt: whether to try again is decided from the commit record, not by the Job controller.
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "activeDeadlineSeconds": spark.timeout_seconds,
            "ttlSecondsAfterFinished": KEEP_FINISHED_SECONDS,
            "template": {
                "metadata": {
                    "labels": pod_labels | (WORKLOAD_IDENTITY_LABEL if config.sink.credential.client_id else {})
                },
                "spec": _driver(spark, config, batch, pod_labels, image),
            },
        }
    }


def unwanted_jobs(observed: Observed, spec: EventConsumerSpec) -> tuple[Manifest, ...]:
    """Running Jobs of a resource whose Spark was switched off. Suspending lets a running one finish."""
    if spec.spark is not None and spec.spark.enabled:
        return ()
    return tuple(job for job in observed.jobs if state_of(job).state is JobState.RUNNING and not is_being_deleted(job))


def _driver(
    spark: Spark, config: HostConfig, batch: BatchJob, executor_labels: dict[str, str], image: str
) -> dict[str, Any]:
    # Without its Secret a driver can only fail, and a failed batch needs a person: so it waits for it (not optional).
    secret = secret_volume(SINK_SECRET, config.sink.credential, optional=False)
    memory = f"{_pod_memory_mib(spark.driver)}Mi"
    return {
        "restartPolicy": "Never",
        "serviceAccountName": labels.SPARK_SERVICE_ACCOUNT,
        "automountServiceAccountToken": True,  # the driver creates the executor pods
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _DRIVER_GRACE_SECONDS,
        "securityContext": pod_security(),
        "containers": [
            {
                "name": "driver",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["driver", *_confs(spark, executor_labels, image), *_program(spark)],
                "env": [
                    {"name": labels.BATCH_JOB_ENV, "value": batch.model_dump_json(by_alias=True)},
                    downward("POD_NAME", "metadata.name"),
                    downward("POD_NAMESPACE", "metadata.namespace"),
                    downward("POD_IP", "status.podIP"),
                ],
                "securityContext": container_security(),
                "resources": {
                    "requests": {"cpu": spark.driver.core_request or str(spark.driver.cores), "memory": memory},
                    "limits": {"memory": memory},
                },
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
                    *([secret_mount(SINK_SECRET)] if secret else []),
                ],
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}, *([secret] if secret else [])],
    }


def _program(spark: Spark) -> list[str]:
    return [spark.application.main_file, *spark.application.arguments]


def _confs(spark: Spark, executor_labels: dict[str, str], image: str) -> list[str]:
    """Sizes and labels; how driver and executors find each other is the image's business.

    No CPU limit for executors: a JVM that starts or collects garbage under one is slowed down for nothing.
    """
    executor = spark.executor
    values = {
        "spark.driver.memory": spark.driver.memory,
        "spark.executor.instances": str(executor.instances),
        "spark.executor.cores": str(executor.cores),
        "spark.executor.memory": executor.memory,
        "spark.kubernetes.executor.request.cores": executor.core_request or str(executor.cores),
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        **{f"spark.kubernetes.executor.label.{name}": value for name, value in executor_labels.items()},
    }
    return [part for name, value in values.items() for part in ("--conf", f"{name}={value}")]


def _pod_memory_mib(pod: SparkPod) -> int:
    amount, unit = int(pod.memory[:-1]), pod.memory[-1]
    heap = amount * 1024 if unit == "g" else amount
    return heap + max(_OVERHEAD_MIN_MIB, int(heap * _OVERHEAD_FACTOR))
