"""Makes the world as the plan says: server-side apply, create, delete.

What is already as wanted is not written again: an object carries the digest of what was applied to it, and is left
alone while the digest is the same and nobody changed what we said. One child that cannot be applied does not keep the
others from it.
"""

import hashlib
import json
from dataclasses import dataclass, field

from eventconsumer_api.v1alpha1 import KIND
from eventconsumer_operator.api import Api
from eventconsumer_operator.errors import DependencyNotReady, NameTaken, OperatorError
from eventconsumer_operator.manifest import (
    Manifest,
    controller_uid,
    describe,
    difference,
    is_being_deleted,
    kind_of,
    name_of,
)
from eventconsumer_operator.observed import Observed
from eventconsumer_operator.plan import Plan

ANNOTATION_APPLIED = "eventconsumer.io/applied"
_DELETION_DELAY = 2.0


@dataclass
class Outcome:
    """What came of applying a plan.

    Attributes:
        changes: What was written and why, as text for the log.
        errors: What could not be done.
    """

    changes: list[str] = field(default_factory=list)
    errors: list[OperatorError] = field(default_factory=list)


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
            if await api.create(job) is not None:
                outcome.changes.append(f"{describe(job)} created")
        for manifest in plan.deleted:
            metadata = manifest["metadata"]
            await api.delete(kind_of(manifest), metadata["namespace"], metadata["name"], metadata["uid"])
            outcome.changes.append(f"{describe(manifest)} deleted: no longer wanted")
    except OperatorError as error:
        outcome.errors.append(error)
    return outcome


async def _apply_one(api: Api, observed: Observed, manifest: Manifest, outcome: Outcome) -> None:
    kind = kind_of(manifest)
    live = observed.children.get((kind, name_of(manifest)))
    stamped = _stamped(manifest)
    if live is None:
        # The store holds what carries our label; somebody else's object of this name need not.
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
