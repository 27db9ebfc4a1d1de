"""Spark: which application must run now, which must go. Pure.

One batch is in flight, and one attempt at it. What was done is read from the batch's commit record (through the leading
host) and never from applications or pods.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eventconsumer_api import labels
from eventconsumer_api.batch import BatchJob
from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.host_report import BatchReport
from eventconsumer_api.spark import Launcher, PoisonFiles, Spark, SparkMode
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.applications import application_of
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.manifest import Manifest
from eventconsumer_operator.observed import Observed
from eventconsumer_operator.plan.names import application_name, child_labels
from eventconsumer_operator.plan.spark import apache, kubeflow, native
from eventconsumer_operator.plan.spark.launch import Launch
from eventconsumer_operator.settings import Settings

LAUNCHERS: Mapping[Launcher, Callable[[Launch], Manifest]] = {
    Launcher.NATIVE: native.application,
    Launcher.KUBEFLOW: kubeflow.application,
    Launcher.APACHE: apache.application,
}
"""Makes the manifest of an application."""


@dataclass(frozen=True)
class SparkPlan:
    """What must be of Spark.

    Attributes:
        started: The application to start; None: none.
        deleted: Applications to delete.
    """

    started: Manifest | None = None
    deleted: tuple[Manifest, ...] = ()


def orphans(observed: Observed, settings: Settings) -> tuple[Manifest, ...]:
    """Pods of applications that are gone, where the launcher leaves them behind."""
    return kubeflow.orphans(observed) if Launcher.KUBEFLOW in settings.spark_launchers else ()


def spark_plan(observed: Observed, spec: EventConsumerSpec, config: HostConfig, settings: Settings) -> SparkPlan:
    """Decide what must be."""
    spark, fleet = spec.spark, observed.fleet
    if spark is None or not spark.enabled or spark.output is None:
        return SparkPlan(deleted=_unfinished(observed))
    if spark.launcher not in (Launcher.NATIVE, *settings.spark_launchers):
        raise SpecError(
            "spec.spark.launcher",
            f"{spark.launcher} is not enabled: set Native, or let the administrator add it to sparkLaunchers of the "
            f"chart (--spark-launcher {spark.launcher})",
        )
    if spec.suspend or fleet is None or fleet.open_batch is None:
        return SparkPlan()
    if any(application_of(each).batch == fleet.open_batch.number for each in observed.applications):
        return SparkPlan()
    launch = launch_of(observed, spark, config, settings, fleet.open_batch, attempt=1)
    return SparkPlan(started=LAUNCHERS[spark.launcher](launch))


def launch_of(
    observed: Observed, spark: Spark, config: HostConfig, settings: Settings, batch: BatchReport, *, attempt: int
) -> Launch:
    """An attempt at a batch."""
    consumer = observed.consumer
    name = application_name(consumer.key, consumer.uid, batch.number, attempt)
    if spark.output is None:
        raise ValueError("no output")  # the CRD has a rule against it, and the plan looked
    own = {labels.LABEL_BATCH: str(batch.number), labels.LABEL_ATTEMPT: str(attempt)}
    return Launch(
        consumer=consumer,
        spark=spark,
        batch=BatchJob(
            resource=consumer.reference,
            application=name,
            number=batch.number,
            attempt=attempt,
            sink=config.sink,
            output=spark.output,
            search_poison=spark.poison_files is PoisonFiles.QUARANTINE and attempt >= spark.retry.attempts,
        ),
        config=config,
        name=name,
        labels=child_labels(consumer.key, labels.COMPONENT_SPARK) | own,
        image=spark.application.image or settings.spark_image,
        local=is_local(spark, batch),
        confs=spark.application.conf,
    )


def is_local(spark: Spark, batch: BatchReport) -> bool:
    """Whether the tasks of a batch run in its driver."""
    if spark.mode is not SparkMode.AUTO:
        return spark.mode is SparkMode.LOCAL
    return spark.launcher is Launcher.NATIVE and batch.bytes <= spark.local_max_bytes


def _unfinished(observed: Observed) -> tuple[Manifest, ...]:
    found = ((each, application_of(each)) for each in observed.applications)
    return tuple(each for each, said in found if not said.ended and not said.deleted)
