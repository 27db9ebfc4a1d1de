"""Applies a plan: create, server-side apply, delete.

An object carries the digest of the manifest that was applied to it. It is written again only if the digest or a field
of the operator has changed. An error of one object does not prevent the others from being applied.
"""

import contextlib
import hashlib
import json
from dataclasses import dataclass

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.kube.labels import COMPONENT_SPARK
from eventconsumer_api.v1alpha1 import KIND
from eventconsumer_operator import metrics
from eventconsumer_operator.errors import Changed, DependencyNotReady, Gone, NameTaken, OperatorError, Refused
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.contests import Contests
from eventconsumer_operator.kube.manifest import (
    CONTENT_MAX_BYTES,
    EVENT_CONSUMER,
    OVERSIZED,
    controller_uid,
    describe,
    difference,
    is_being_deleted,
    kind_of,
    name_of,
)
from eventconsumer_operator.kube.ownership import (
    ANNOTATION_APPLIED,
    adopted,
    created_entries,
    handed_over,
    is_orphan,
)
from eventconsumer_operator.plan import Plan
from eventconsumer_operator.resource.names import belongs, selector
from eventconsumer_operator.resource.observed import Consumer, Observed, consumer_from
from eventconsumer_operator.spark.applications import application_of, applications_of
from eventconsumer_operator.spark.plan import SparkPlan

_DELETION_DELAY = 2.0


@dataclass(frozen=True)
class Outcome:
    """The result of applying a plan.

    Attributes:
        changes: What was written and why, as text for the log.
        errors: Errors of single objects.
        started: Whether the planned Spark application was started.
    """

    changes: tuple[str, ...] = ()
    errors: tuple[OperatorError, ...] = ()
    started: bool = False


async def apply(api: Api, observed: Observed, plan: Plan, contests: Contests | None = None) -> Outcome:
    """Apply a plan; errors are returned, not raised.

    Args:
        api: The API server.
        observed: The observed state.
        plan: The plan.
        contests: Memory of corrections; None: there is none.
    """
    contests = contests or Contests()
    changes: list[str] = []
    errors: list[OperatorError] = []
    started = False
    for manifest in plan.applied:
        try:
            changes += await _apply_one(api, observed, manifest, contests)
        except OperatorError as error:
            errors.append(error)
    errors += contests.errors(observed.consumer.key)
    try:
        for job in plan.jobs:
            if job is plan.spark.started:
                obstacle = await _start(api, observed, plan.spark)
                started = not obstacle
                changes.append(f"{describe(job)} not created: {obstacle}" if obstacle else f"{describe(job)} created")
            elif await api.create(job) is not None:
                changes.append(f"{describe(job)} created")
            else:
                await _check_namesake(api, observed, job)
        for manifest in plan.deleted:
            metadata = manifest["metadata"]
            await api.delete(kind_of(manifest), metadata["namespace"], metadata["name"], metadata["uid"])
            changes.append(f"{describe(manifest)} deleted: no longer wanted")
    except OperatorError as error:
        errors.append(error)
    return Outcome(tuple(changes), tuple(errors), started)


async def _start(api: Api, observed: Observed, spark: SparkPlan) -> str:
    """Start the planned application, unless the plan was made from outdated objects.

    Attempts at one batch have different names, so the name alone does not prevent a second attempt at the same time.
    Direct reads of the API server do.

    Returns:
        What prevented the start; empty: it was started.
    """
    manifest = spark.started
    if manifest is None:
        return "none is planned"
    if not await _is_current(api, observed):
        return "the resource has changed"
    # The driver pods may show that an application has ended: that does not change.
    known = dict(zip(map(application_of, observed.applications), applications_of(observed), strict=True))
    live = []
    for kind in spark.kinds:
        for found in await _applications(api, observed, kind):
            read = application_of(found)
            application = known.get(read, read)
            if not application.ended:
                live.append(found)
            if application.batch == spark.started_batch and (read not in known or not application.ended):
                return f"{describe(found)} exists"
    if len(live) >= spark.in_flight:
        return f"{describe(live[0])} exists"
    if await api.create(manifest) is None:
        await _check_namesake(api, observed, manifest)
        return "an object of this name exists"
    metrics.APPLICATIONS.labels(spark.mode).inc()
    return ""


async def _check_namesake(api: Api, observed: Observed, manifest: Manifest) -> None:
    """Check the owner of the object that has the name of an application or a Job: those are not adopted."""
    listing = await api.list(kind_of(manifest), observed.consumer.key.namespace)  # there is no right to get one
    for other in listing.items:
        if name_of(other) == name_of(manifest):
            _check_owner(observed, other)


async def _is_current(api: Api, observed: Observed) -> bool:
    """Whether the resource's spec and attempts are still those that were observed."""
    consumer = observed.consumer
    live = await api.get(EVENT_CONSUMER, consumer.key.namespace, consumer.key.name)
    if live is None or is_being_deleted(live):
        return False
    now = consumer_from(live)
    return (now.uid, now.generation, _attempts_in(now)) == (consumer.uid, consumer.generation, _attempts_in(consumer))


def _attempts_in(consumer: Consumer) -> tuple[object, ...]:
    spark = consumer.status.spark
    if spark is None:
        return ()
    return (spark.last_batch, spark.attempt, spark.failures, spark.next_attempt_time, *spark.later_batches)


async def _applications(api: Api, observed: Observed, kind: Kind) -> list[Manifest]:
    key = observed.consumer.key
    try:
        listing = await api.list(kind, key.namespace, selector(key, COMPONENT_SPARK))
    except Gone:
        return []  # the CRD is not installed, so no object exists
    return [found for found in listing.items if controller_uid(found) == observed.consumer.uid]


async def _apply_one(api: Api, observed: Observed, manifest: Manifest, contests: Contests) -> list[str]:
    """Apply an object that differs; return the change, for the log."""
    kind, key, where = kind_of(manifest), observed.consumer.key, (kind_of(manifest), name_of(manifest))
    live = observed.children.get(where)
    stamped = _stamped(manifest)
    digest = stamped["metadata"]["annotations"][ANNOTATION_APPLIED]
    if live is None:
        # The store only holds objects with our label; another owner's object may have this name.
        live = await api.get(kind, key.namespace, name_of(manifest))
    if live is None:
        if contests.waits(key, where, digest):
            return []
        created = await api.create(stamped)
        if created is None:
            raise Changed(f"{describe(manifest)} was created by another client at the same time")
        contests.corrected(key, where, digest, describe(manifest), "it was deleted")
        with contextlib.suppress(Changed):  # the next reconcile hands over
            await _hand_over(api, created)
        return [f"{describe(manifest)} created"]
    if not is_being_deleted(live) and is_orphan(live) and belongs(observed.consumer, live):
        return await _adopt(api, observed, stamped)
    _check_owner(observed, live)
    if size := live.get(OVERSIZED):
        raise Refused(
            f"{describe(manifest)} has more content than the operator holds ({size} bytes, at most "
            f"{CONTENT_MAX_BYTES}): remove what another client has added, or delete the object: the operator creates "
            "it again"
        )
    if created_entries(live):
        complete = await api.get(kind, observed.consumer.key.namespace, name_of(manifest))
        if complete is not None and created_entries(complete):
            await _hand_over(api, complete)
    why = difference(manifest, live)
    if why is None and difference(stamped, live):
        why = "the operator no longer sets some fields"
    if why is None:
        return []
    if contests.waits(key, where, digest):
        return []
    # The store may be outdated: never take over an object that has replaced the one that was compared.
    await api.apply(_with_uid(stamped, live["metadata"]["uid"]))
    contests.corrected(key, where, digest, describe(manifest), why)
    return [f"{describe(manifest)} corrected: {why}"]


async def _adopt(api: Api, observed: Observed, stamped: Manifest) -> list[str]:
    """Take over an orphan: the operator owns all of its fields, and the apply sets its owner."""
    kind, name = kind_of(stamped), name_of(stamped)
    complete = await api.get(kind, observed.consumer.key.namespace, name)
    if complete is None or not is_orphan(complete):
        raise Changed(f"{describe(stamped)} was changed by another client at the same time")
    if fields := adopted(complete):
        await api.merge(kind, complete["metadata"]["namespace"], name, fields)
    await api.apply(_with_uid(stamped, complete["metadata"]["uid"]))
    return [f"{describe(stamped)} adopted: it had no owner"]


async def _hand_over(api: Api, live: Manifest) -> None:
    """Make a later apply remove the fields of the creation that it omits."""
    await api.merge(kind_of(live), live["metadata"]["namespace"], name_of(live), handed_over(live))


def _check_owner(observed: Observed, child: Manifest) -> None:
    consumer = observed.consumer
    if is_being_deleted(child):
        raise DependencyNotReady(f"{describe(child)} is being deleted", _DELETION_DELAY)
    if controller_uid(child) == consumer.uid:
        return
    former = any(
        reference["kind"] == KIND and reference["name"] == consumer.key.name
        for reference in child["metadata"].get("ownerReferences", [])
    )
    if former:
        raise DependencyNotReady(
            f"{describe(child)} belongs to a deleted EventConsumer of the same name and is about to be deleted",
            _DELETION_DELAY,
        )
    raise NameTaken(
        f"{describe(child)} exists and does not belong to this EventConsumer: rename or delete it, or give the "
        "EventConsumer another name"
    )


def _with_uid(manifest: Manifest, uid: str) -> Manifest:
    return manifest | {"metadata": manifest["metadata"] | {"uid": uid}}


def _stamped(manifest: Manifest) -> Manifest:
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations", {}) | {ANNOTATION_APPLIED: digest}
    return manifest | {"metadata": metadata | {"annotations": annotations}}
