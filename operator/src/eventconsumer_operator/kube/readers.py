"""Which EventConsumers of a namespace read one Event Hub in one consumer group. Pure.

Event Hubs disconnects a reader of a partition when a reader with a higher epoch attaches, so of two EventConsumers only
one can read, and they disturb each other. The oldest one reads. An EventConsumer of another namespace never counts:
otherwise any tenant could stop the hosts of another one by naming its hub.

Event Hubs compares names without case. A hub may be named only by a connection string, which the operator cannot read:
then hosts report the name (`status.hub`), and the same key of the same Secret means the same hub.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_operator.kube.manifest import is_being_deleted, name_of, spec_of


def hubs_of(manifest: Manifest) -> frozenset[Hashable]:
    """All that names the hub and the consumer group of an EventConsumer; two that have one in common read the same."""
    metadata, hub = manifest["metadata"], _object(spec_of(manifest).get("eventHub"))
    group = _text(hub.get("consumerGroup")) or "$default"
    status = _object(manifest.get("status"))
    # A changed spec may name another Secret, and so another hub: hosts report it again.
    current = status.get("observedGeneration") == metadata.get("generation")
    reported = _object(status.get("hub")) if current else {}
    host = _text(hub.get("fullyQualifiedNamespace")) or _text(reported.get("namespace"))
    name = _text(hub.get("name")) or _text(reported.get("name"))
    found: set[Hashable] = set()
    if host and name:
        found.add(("hub", metadata["namespace"], host, name, group))
    secret = _object(_object(hub.get("authentication")).get("connectionStringSecretRef"))
    if secret:
        named = _text(hub.get("fullyQualifiedNamespace")), _text(hub.get("name"))
        found.add(("secret", metadata["namespace"], secret.get("name"), secret.get("key"), *named, group))
    return frozenset(found)


def older_reader(manifest: Manifest, others: Iterable[Manifest]) -> str:
    """The oldest EventConsumer that reads the same and is older; empty: this one is the oldest.

    Args:
        manifest: An EventConsumer.
        others: Those with the same hub and consumer group.
    """
    older = [other for other in others if _reads(other) and _age(other) < _age(manifest)]
    return name_of(min(older, key=_age)) if older else ""


def _reads(manifest: Manifest) -> bool:
    """Whether it has hosts, or may have them later without a change of its spec."""
    spec = spec_of(manifest)
    scaling = _object(spec.get("scaling"))
    fixed_to_zero = scaling.get("mode") == "Fixed" and not scaling.get("replicas")
    return not (is_being_deleted(manifest) or spec.get("suspend") is True or fixed_to_zero)


def _age(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """Sorts by creation; the API server writes times in one form, RFC 3339 in UTC with whole seconds."""
    return manifest["metadata"].get("creationTimestamp", ""), manifest["metadata"]["uid"]


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""
