"""Spark's share of the plan: the application to start, and applications to delete. Pure.

One batch is open at a time, or up to `spark.batch.inFlight`, each with one attempt at a time. Progress is read from
commit records, through the leading host, and never from applications or pods. Finished applications are kept for a
while, for their logs.

With `spark.idleTimeoutSeconds` a driver is resident: it processes later batches, too. Its application has an annotation
with the digest of the manifest that a first attempt would have. A resident driver with another digest is outdated: it
is deleted, unless it works on the batch for which it was started. A suspension deletes every resident driver.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.kube.mounts import registry_credential
from eventconsumer_api.spec.spark import ApplicationHistory, Launcher, Spark, SparkMode, UnprocessableFiles
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_api.wire.batch import BatchJob, ResidentLimits
from eventconsumer_api.wire.host_config import Credential, HostConfig
from eventconsumer_api.wire.host_report import BatchReport, FleetReport
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.kube.manifest import JOB, KINDS_OF_LAUNCHERS
from eventconsumer_operator.resource.images import spark_image
from eventconsumer_operator.resource.names import application_name, child_labels
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.settings import Settings
from eventconsumer_operator.spark import native, sparkapplications
from eventconsumer_operator.spark.applications import Application, ApplicationState, application_of, applications_of
from eventconsumer_operator.spark.attempts import Attempts, attempts
from eventconsumer_operator.spark.conf import checked_conf
from eventconsumer_operator.spark.launch import RESIDENT_SECONDS, Launch, Parts
from eventconsumer_operator.spark.reprocess import reprocess_job, unwanted_reprocess

LAUNCHERS: Mapping[Launcher, Callable[[Launch], Manifest]] = {
    Launcher.NATIVE: native.application,
    Launcher.KUBEFLOW: sparkapplications.kubeflow_application,
    Launcher.APACHE: sparkapplications.apache_application,
}
"""Functions that make the manifest of an application."""
SMALL_BYTES = 16 * 1024**2
"""Size of a batch up to which the start takes longer than the work."""


@dataclass(frozen=True)
class SparkPlan:
    """Spark's share of the plan.

    Attributes:
        spec: The resource's spec.
        credential: Credential of the sink.
        attempts: Attempts at the first open batch, and at the later ones.
        started: The application to start; None: none. The next one starts in the next round.
        started_batch: The number of its batch; 0: none.
        mode: Place of its tasks: Local or Executors.
        in_flight: Maximum number of applications that run at a time.
        kinds: Kinds of applications that may exist.
        deleted: Applications to delete.
        reprocess: The Job to create that reprocesses batches; None: none.
    """

    spec: EventConsumerSpec
    credential: Credential
    attempts: Attempts = field(default_factory=Attempts)
    started: Manifest | None = None
    started_batch: int = 0
    mode: Literal["", "Local", "Executors"] = ""
    in_flight: int = 1
    kinds: tuple[Kind, ...] = (JOB,)
    deleted: tuple[Manifest, ...] = ()
    reprocess: Manifest | None = None


def orphans(observed: Observed, settings: Settings) -> tuple[Manifest, ...]:
    """Pods of deleted applications that the launcher leaves behind."""
    return sparkapplications.orphaned_drivers(observed) if Launcher.KUBEFLOW in settings.spark_launchers else ()


def spark_plan(observed: Observed, spec: EventConsumerSpec, config: HostConfig, settings: Settings) -> SparkPlan:
    """Make Spark's share of the plan.

    Raises:
        SpecError: The launcher, the image or a Spark property is not allowed.
    """
    spark, fleet = spec.spark, observed.fleet
    if spark is None or not spark.enabled or spark.output is None:
        return SparkPlan(
            spec, config.sink.credential, deleted=(*_unfinished(observed), *unwanted_reprocess(observed, None))
        )
    if spark.launcher not in (Launcher.NATIVE, *settings.spark_launchers):
        raise SpecError(
            "spec.spark.launcher",
            f"{spark.launcher} is not enabled: set Native, or ask the operator's administrator to extend "
            f"sparkLaunchers (--spark-launcher {spark.launcher})",
        )
    made_of = Parts(
        observed.consumer,
        spark,
        spark.output,
        config,
        spark_image(spec, settings),
        checked_conf(spark),
        chain=fleet.chain if fleet else "",
    )
    state = attempts(observed, spark)
    digest = resident_digest(made_of)
    ready = made_of.chain and not spec.suspend  # hosts of other versions may report no chain
    launch = next(
        (
            launch_of(made_of, batch, each.start)
            for batch, each in zip(fleet.open_batches if fleet else (), state.all, strict=True)
            if each.start and ready
        ),
        None,
    )
    return SparkPlan(
        spec,
        config.sink.credential,
        attempts=state,
        started=_manifest(launch, digest) if launch else None,
        started_batch=launch.batch.number if launch else 0,
        mode=("Local" if launch.local else "Executors") if launch else "",
        in_flight=spark.batch.in_flight,
        kinds=(JOB, *(KINDS_OF_LAUNCHERS[launcher] for launcher in settings.spark_launchers)),
        deleted=(
            *_given_up(observed, state, spark, _outdated_residents(state, fleet, digest, suspended=spec.suspend)),
            *unwanted_reprocess(observed, spark.reprocess),
        ),
        reprocess=reprocess_job(observed, made_of) if not spec.suspend else None,
    )


def launch_of(parts: Parts, batch: BatchReport, attempt: int) -> Launch:
    """An attempt at a batch."""
    consumer, spark = parts.consumer, parts.spark
    name = application_name(consumer.key, consumer.uid, batch.number, attempt)
    local = is_local(spark, batch)
    own = {labels.LABEL_BATCH: str(batch.number), labels.LABEL_ATTEMPT: str(attempt)}
    return Launch(
        consumer=consumer,
        spark=spark,
        batch=BatchJob(
            chain=parts.chain,
            resource=consumer.reference,
            application=name,
            number=batch.number,
            attempt=attempt,
            sink=parts.config.sink,
            output=parts.output,
            registry=registry_credential(parts.output.body.registry),
            allow_insecure_endpoints=parts.config.allow_insecure_endpoints,
            storage_suffixes=parts.config.storage_suffixes,
            search_unprocessable=_searches_unprocessable(spark, attempt),
            parallel=batch.parallel,
            resident=resident(spark, local=local),
        ),
        config=parts.config,
        name=name,
        labels=child_labels(consumer.key, labels.COMPONENT_SPARK) | own,
        image=parts.image,
        local=local,
        confs=parts.confs,
        small=batch.bytes <= SMALL_BYTES,
    )


def resident(spark: Spark, *, local: bool) -> ResidentLimits | None:
    """Limits of a resident driver; None: the driver ends with its batch."""
    if not spark.idle_timeout_seconds:
        return None
    # A larger batch gets a driver with executors.
    is_limited = local and spark.mode is SparkMode.AUTO
    return ResidentLimits(
        seconds=spark.idle_timeout_seconds,
        max_age_seconds=RESIDENT_SECONDS,
        max_bytes=spark.local_max_bytes if is_limited else None,
        search_unprocessable=_searches_unprocessable(spark, 1),
    )


def resident_digest(parts: Parts) -> str:
    """Digest of all properties of applications with a resident driver; empty: they have none, or it is unknown."""
    if not parts.spark.idle_timeout_seconds or not parts.chain:
        return ""
    first = BatchReport(number=1, files=0, bytes=0, events=0, reason="")
    manifest = LAUNCHERS[parts.spark.launcher](launch_of(parts, first, 1))
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]


def is_local(spark: Spark, batch: BatchReport) -> bool:
    """Whether the tasks of a batch run in its driver."""
    if spark.mode is not SparkMode.AUTO:
        return spark.mode is SparkMode.LOCAL
    return spark.launcher is Launcher.NATIVE and batch.bytes <= spark.local_max_bytes


def outdated(
    applications: tuple[Application, ...], history: ApplicationHistory, attempts: Attempts, now: datetime
) -> tuple[Application, ...]:
    """Finished applications to delete: those beyond the history limits, and those that are too old.

    The newest attempt at an open batch is always kept: its result is not final.
    """
    newest = {each.newest.uid for each in attempts.all if each.newest}
    ended = [each for each in applications if each.ended and not each.deleted and each.uid not in newest]
    ended.sort(key=lambda each: (each.finished or now, each.batch, each.attempt), reverse=True)
    limits = {ApplicationState.SUCCEEDED: history.succeeded, ApplicationState.FAILED: history.failed}
    return tuple(
        each
        for state, limit in limits.items()
        for place, each in enumerate(each for each in ended if each.state is state)
        if place >= limit or now - (each.finished or now) > timedelta(seconds=history.ttl_seconds)
    )


def _searches_unprocessable(spark: Spark, attempt: int) -> bool:
    return spark.unprocessable_files is UnprocessableFiles.QUARANTINE and attempt >= spark.retry.attempts


def _manifest(launch: Launch, digest: str) -> Manifest:
    manifest = LAUNCHERS[launch.spark.launcher](launch)
    if digest:
        annotations = manifest["metadata"].get("annotations", {})
        manifest["metadata"]["annotations"] = annotations | {labels.ANNOTATION_RESIDENT: digest}
    return manifest


def _outdated_residents(
    state: Attempts, fleet: FleetReport | None, digest: str, *, suspended: bool
) -> tuple[Application, ...]:
    """Resident drivers to delete; the next batch gets a new one."""
    residents = [each for each in state.live if each.resident and not each.deleted]
    if suspended:
        return tuple(residents)
    committed = fleet.committed_batch if fleet else 0
    return tuple(each for each in residents if each.resident != digest and each.batch <= committed)


def _given_up(
    observed: Observed, state: Attempts, spark: Spark, residents: tuple[Application, ...]
) -> tuple[Manifest, ...]:
    """Applications that were given up, outdated resident drivers, and applications whose retention has passed."""
    old: tuple[Application, ...] = ()
    if observed.fleet:  # else the open batch is unknown
        old = outdated(applications_of(observed), spark.history, state, observed.now)
    given_up = (*state.given_up, *(one for each in state.later for one in each.given_up))
    uids = {each.uid for each in (*given_up, *residents, *old)}
    return tuple(each for each in observed.applications if each["metadata"]["uid"] in uids)


def _unfinished(observed: Observed) -> tuple[Manifest, ...]:
    found = ((each, application_of(each)) for each in observed.applications)
    return tuple(each for each, said in found if not said.ended and not said.deleted)
