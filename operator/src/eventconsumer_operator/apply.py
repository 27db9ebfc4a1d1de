"""Makes the world as the plan says: server-side apply, create, delete.

What is already as wanted is not written again: an object carries the digest of what was applied to it, and is left
alone while the digest is the same and no field of ours was changed. One child that cannot be applied does not keep the
others from it.
"""

import hashlib
import json
from dataclasses import dataclass, field

from eventconsumer_api.kinds import Kind, Manifest
from eventconsumer_api.labels import COMPONENT_SPARK
from eventconsumer_api.v1alpha1 import KIND
from eventconsumer_operator import metrics
from eventconsumer_operator.errors import DependencyNotReady, Gone, NameTaken, OperatorError
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.manifest import (
    EVENT_CONSUMER,
    controller_uid,
    describe,
    difference,
    is_being_deleted,
    kind_of,
    name_of,
)
from eventconsumer_operator.plan import Plan
from eventconsumer_operator.resource.names import selector
from eventconsumer_operator.resource.observed import Consumer, Observed, consumer_from
from eventconsumer_operator.spark.applications import application_of
from eventconsumer_operator.spark.plan import SparkPlan

ANNOTATION_APPLIED = "eventconsumer.io/applied"
_DELETION_DELAY = 2.0


@dataclass
class Outcome:
    """What came of applying a plan.

    Attributes:
        changes: What was written and why, as text for the log.
        errors: What could not be done.
        started: Whether the Spark application was started that the plan wanted started.
    """

    changes: list[str] = field(default_factory=list)
    errors: list[OperatorError] = field(default_factory=list)
    started: bool = False


async def apply(api: Api, observed: Observed, plan: Plan) -> Outcome:
    """Apply a plan; errors are returned, not raised."""
    outcome = Outcome()
    for manifest in plan.applied:
        try:
            await _apply_one(api, observed, manifest, outcome)
        except OperatorError as error:
            outcome.errors.append(error)
    try:
        for job in plan.jobs:
            if job is plan.spark.started:
                await _start(api, observed, plan.spark, outcome)
            elif await api.create(job) is not None:
                outcome.changes.append(f"{describe(job)} created")
        for manifest in plan.deleted:
            metadata = manifest["metadata"]
            await api.delete(kind_of(manifest), metadata["namespace"], metadata["name"], metadata["uid"])
            outcome.changes.append(f"{describe(manifest)} deleted: no longer wanted")
    except OperatorError as error:
        outcome.errors.append(error)
    return outcome


async def _start(api: Api, observed: Observed, spark: SparkPlan, outcome: Outcome) -> None:
    """Start an application, unless the world is not the one from which that was decided.

    Attempts at one batch have names of their own, so a name alone does not prevent a second attempt beside the
    first: whoever looks at a world of yesterday finds that out here.
    """
    manifest = spark.started
    if manifest is None:
        return
    if not await _is_current(api, observed):
        outcome.changes.append(f"{describe(manifest)} not created: the resource has changed")
        return
    known = {application_of(each) for each in observed.applications}
    for kind in spark.kinds:
        for found in await _applications(api, observed, kind):
            application = application_of(found)
            news = application.batch == spark.attempts.batch and application not in known
            if news or not application.ended:
                outcome.changes.append(f"{describe(manifest)} not created: {describe(found)} is there")
                return
    if await api.create(manifest) is None:
        listing = await api.list(kind_of(manifest), observed.consumer.key.namespace)  # there is no right to get one
        for live in listing.items:
            if name_of(live) == name_of(manifest):
                _check_owner(observed, live)
        return
    outcome.started = True
    outcome.changes.append(f"{describe(manifest)} created")
    metrics.APPLICATIONS.labels(spark.mode).inc()


async def _is_current(api: Api, observed: Observed) -> bool:
    """Whether the resource still says what was observed of its spec and of its attempts."""
    consumer = observed.consumer
    live = await api.get(EVENT_CONSUMER, consumer.key.namespace, consumer.key.name)
    if live is None or is_being_deleted(live):
        return False
    now = consumer_from(live)
    return (now.uid, now.generation, _attempts_in(now)) == (consumer.uid, consumer.generation, _attempts_in(consumer))


def _attempts_in(consumer: Consumer) -> tuple[object, ...]:
    spark = consumer.status.spark
    return (spark.last_batch, spark.attempt, spark.failures, spark.next_attempt_time) if spark else ()


async def _applications(api: Api, observed: Observed, kind: Kind) -> list[Manifest]:
    key = observed.consumer.key
    try:
        listing = await api.list(kind, key.namespace, selector(key, COMPONENT_SPARK))
    except Gone:
        return []  # its CRD is not installed, so no such object exists
    return [found for found in listing.items if controller_uid(found) == observed.consumer.uid]


async def _apply_one(api: Api, observed: Observed, manifest: Manifest, outcome: Outcome) -> None:
    kind = kind_of(manifest)
    live = observed.children.get((kind, name_of(manifest)))
    stamped = _stamped(manifest)
    if live is None:
        # The store holds objects with our label; an object of another owner may have this name without it.
        live = await api.get(kind, observed.consumer.key.namespace, name_of(manifest))
    if live is None:
        await api.apply(stamped)
        outcome.changes.append(f"{describe(manifest)} created")
        return
    _check_owner(observed, live)
    why = difference(manifest, live)
    if why is None and difference(stamped, live):
        why = "something is no longer wanted"
    if why is not None:
        # The view may be old: never take over an object that came in place of the one we judged.
        await api.apply(_with_uid(stamped, live["metadata"]["uid"]))
        outcome.changes.append(f"{describe(manifest)} corrected: {why}")


def _check_owner(observed: Observed, live: Manifest) -> None:
    consumer = observed.consumer
    if is_being_deleted(live):
        raise DependencyNotReady(f"{describe(live)} is being deleted", _DELETION_DELAY)
    owner = controller_uid(live)
    if owner == consumer.uid:
        return
    former = any(
        reference["kind"] == KIND and reference["name"] == consumer.key.name
        for reference in live["metadata"].get("ownerReferences", [])
    )
    if former:
        raise DependencyNotReady(
            f"{describe(live)} belongs to an EventConsumer of the same name that was deleted and goes with it",
            _DELETION_DELAY,
        )
    raise NameTaken(
        f"{describe(live)} exists and belongs to somebody else: "
        "rename or delete it, or give the EventConsumer another name"
    )


def _with_uid(manifest: Manifest, uid: str) -> Manifest:
    return manifest | {"metadata": manifest["metadata"] | {"uid": uid}}


def _stamped(manifest: Manifest) -> Manifest:
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations", {}) | {ANNOTATION_APPLIED: digest}
    return manifest | {"metadata": metadata | {"annotations": annotations}}
