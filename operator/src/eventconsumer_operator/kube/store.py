"""The store: the operator's objects in memory, so a reconcile at rest makes no request to the API server.

It is fed by watch events, answers to writes, direct reads after a conflict, and complete lists. These arrive late and
in any order, so each is compared by its resourceVersion, and the store never goes back in time:

- An object is replaced only by a newer version.
- A deletion leaves a tombstone, which rejects older versions.
- A list is complete up to its own version: absent objects that are not newer are deleted, and later arrivals that are
  not newer are already known. So lists repair the effect of lost events, and older tombstones can be dropped.

Versions are compared as numbers, as API servers guarantee. A version that is not a number is accepted in order of
arrival. A list that is older than the previous one means that the cluster was restored from a backup: it replaces all.

Manifests in the store are shared and never changed in place. They are trimmed to the parts that the operator uses.
"""

import sys
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_operator.errors import Forbidden
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER, STORED, ObjectList, kind_of, name_of, trimmed
from eventconsumer_operator.kube.readers import hubs_of

Where = tuple[Kind, str, str]
_SHORT = 256  # longest text, in characters, that is shared between objects
_SHARED = 2048  # parts of objects that new objects may share: those of some hundred resources


@dataclass
class _Part:
    """The objects of one kind in one scope.

    Attributes:
        objects: By namespace and name.
        tombstones: Version of each deletion since the last list, by namespace and name.
        version: Version of the last list; None before the first.
    """

    objects: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    tombstones: dict[tuple[str, str], int] = field(default_factory=dict)
    version: str | None = None

    def is_known(self, where: tuple[str, str], version: str) -> bool:
        """Whether a manifest at `version` is not newer than the known state of an object."""
        held = self.objects.get(where)
        if held is not None and (_version(held) == version or _is_older(version, _version(held))):
            return True
        number = _number(version)
        if number is None:
            return False
        floor = _number(self.version or "")
        return number <= max(self.tombstones.get(where, -1), -1 if floor is None else floor)

    def put(self, where: tuple[str, str], manifest: Manifest) -> None:
        """Hold an object."""
        self.tombstones.pop(where, None)
        self.objects[where] = manifest

    def drop(self, where: tuple[str, str]) -> Manifest | None:
        """Drop an object; return it, or None if there is none."""
        return self.objects.pop(where, None)

    def bury(self, where: tuple[str, str], version: str) -> None:
        """Remember a deletion."""
        number = _number(version)
        if number is not None:
            self.tombstones[where] = max(number, self.tombstones.get(where, -1))

    def begin_list(self) -> None:
        """Compare the objects of a new list without the version of the previous list."""
        self.version = None

    def end_list(self, version: str) -> None:
        """Set the version of a complete list; tombstones up to it are dropped."""
        self.version = version
        floor = _number(version)
        if floor is not None:
            self.tombstones = {where: number for where, number in self.tombstones.items() if number > floor}

    def forget_deletions(self) -> None:
        """Drop all tombstones."""
        self.tombstones.clear()


class _Sharing:
    """Makes equal parts of objects one object: most of a pod template is the same for all EventConsumers."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Hashable, ...], Any] = {}  # by their content, where nodes inside are already shared

    def of(self, node: Any) -> Any:
        """An equal value, whose parts other objects may have."""
        if isinstance(node, dict):
            kept: Any = {sys.intern(name): self.of(value) for name, value in node.items()}
            key = (dict, *kept, *map(_identity, kept.values()))
        elif isinstance(node, list):
            kept = [self.of(value) for value in node]
            key = (list, *map(_identity, kept))
        else:
            return sys.intern(node) if isinstance(node, str) and len(node) <= _SHORT else node
        if len(self._nodes) >= _SHARED:
            self._nodes.clear()
        return self._nodes.setdefault(key, kept)


def _identity(value: Any) -> Hashable:
    """The same for equal values of one type; nodes of equal content are one object."""
    return id(value) if isinstance(value, dict | list) else (type(value), value)


class Store:
    """Objects by kind, namespace and name, and by the EventConsumer that they belong to."""

    def __init__(self, *, clusterwide: bool = False, kinds: Sequence[Kind] = STORED) -> None:
        """Create an empty store.

        Args:
            clusterwide: Whether one list covers all namespaces.
            kinds: Kinds that are watched and listed.
        """
        self.kinds = tuple(kinds)
        self._sharing = _Sharing()
        self._unserved: set[Kind] = set()
        self._clusterwide = clusterwide
        self._parts: dict[tuple[Kind, str], _Part] = {}
        self._refusals: dict[tuple[Kind, str], Forbidden] = {}
        self._by_consumer: dict[Key, dict[Where, Manifest]] = {}
        self._by_hub: dict[Hashable, dict[Key, Manifest]] = {}  # EventConsumers, see `readers`

    @property
    def served(self) -> tuple[Kind, ...]:
        """The kinds that the API server serves."""
        return tuple(kind for kind in self.kinds if kind not in self._unserved)

    @property
    def unserved(self) -> frozenset[Kind]:
        """The kinds that the API server does not serve: their CRD is not installed."""
        return frozenset(self._unserved)

    def set_served(self, kind: Kind, served: bool) -> None:
        """Record whether the API server serves a kind."""
        (self._unserved.discard if served else self._unserved.add)(kind)

    # --- reading ---------------------------------------------------------------------------------------------------

    def synced(self, namespace: str) -> bool:
        """Whether every kind was listed: before that, an absent object may exist."""
        scope = self._scope(namespace)
        return all(self._part(kind, scope).version is not None for kind in self.kinds)

    def refusals(self, namespace: str) -> list[Forbidden]:
        """Errors of kinds that the operator may not list: the store has outdated objects of them, or none."""
        scope = self._scope(namespace)
        return [self._refusals[kind, scope] for kind in self.kinds if (kind, scope) in self._refusals]

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Return the object, or None if there is none."""
        return self._part(kind, self._scope(namespace)).objects.get((namespace, name))

    def belonging(self, key: Key) -> Iterator[tuple[Kind, Manifest]]:
        """Return all objects whose label names an EventConsumer; any client can set the label."""
        return ((kind, manifest) for (kind, _, _), manifest in self._by_consumer.get(key, {}).items())

    def same_hub(self, key: Key) -> list[Manifest]:
        """Return the other EventConsumers of the namespace that read the same hub in the same consumer group."""
        manifest = self.get(EVENT_CONSUMER, *key)
        hubs = hubs_of(manifest) if manifest else ()
        found = {each: other for hub in hubs for each, other in self._by_hub.get(hub, {}).items() if each != key}
        return list(found.values())

    def consumers(self, scope: str) -> list[Key]:
        """Return all EventConsumers of a namespace; "" for all namespaces."""
        return [Key(*where) for where in self._part(EVENT_CONSUMER, scope).objects]

    # --- feeding ---------------------------------------------------------------------------------------------------

    def put(self, manifest: Manifest) -> bool:
        """Add or update an object; return whether it is newer than the known state."""
        kind = kind_of(manifest)
        if kind not in self.kinds:
            return False
        where = (manifest["metadata"]["namespace"], name_of(manifest))
        part = self._part(kind, self._scope(where[0]))
        if part.is_known(where, _version(manifest)):
            return False
        self._set(part, kind, where, manifest)
        return True

    def remove(self, manifest: Manifest) -> bool:
        """Delete an object; `manifest` is its last state, at the version of the deletion. Return as `put`."""
        kind = kind_of(manifest)
        where = (manifest["metadata"]["namespace"], name_of(manifest))
        part = self._part(kind, self._scope(where[0]))
        held = part.objects.get(where)
        if held is not None and _is_older(_version(manifest), _version(held)):
            return False
        part.bury(where, _version(manifest))
        if held is None:
            return False
        self._unset(part, kind, where)
        return True

    def kept(self, manifest: Manifest) -> Manifest:
        """The part of an object that is held: the held object itself at the same version.

        Lists use it, so that a list of thousands of unchanged objects takes no memory.
        """
        held = self.get(kind_of(manifest), manifest["metadata"]["namespace"], name_of(manifest))
        if held is not None and _version(held) == _version(manifest):
            return held
        kept: Manifest = self._sharing.of(trimmed(manifest))
        return kept

    def refuse(self, kind: Kind, scope: str, error: Forbidden) -> None:
        """Record that a kind may not be listed; the next list clears it."""
        self._refusals[kind, scope] = error

    def forget(self, kind: Kind, namespace: str, name: str) -> None:
        """Drop an object that a direct read did not find."""
        held = self.get(kind, namespace, name)
        if held is not None:
            self.remove(held)

    def replace(self, kind: Kind, scope: str, listing: ObjectList) -> set[Key]:
        """Replace the objects of a kind by a complete list.

        Args:
            kind: The kind.
            scope: The listed namespace, or "" for all.
            listing: All objects of the kind with the operator's label, and the list's version.

        Returns:
            The EventConsumers with changed objects.
        """
        part = self._part(kind, scope)
        self._refusals.pop((kind, scope), None)
        news: set[Key] = set()
        listed = set()
        if part.version is not None and _is_older(listing.version, part.version):
            part.forget_deletions()
            for where, held in list(part.objects.items()):
                news.update(_keys(kind, held))
                self._unset(part, kind, where)
        part.begin_list()
        for manifest in listing.items:
            where = (manifest["metadata"]["namespace"], name_of(manifest))
            listed.add(where)
            if self.put(manifest):
                news.update(_keys(kind, manifest))
        for where, held in list(part.objects.items()):
            if where not in listed and not _is_older(listing.version, _version(held)):
                self._unset(part, kind, where)
                news.update(_keys(kind, held))
        part.end_list(listing.version)
        return news

    # --- inside ----------------------------------------------------------------------------------------------------

    def _scope(self, namespace: str) -> str:
        return "" if self._clusterwide else namespace

    def _part(self, kind: Kind, scope: str) -> _Part:
        part = self._parts.get((kind, scope))
        if part is None:
            part = self._parts[kind, scope] = _Part()
        return part

    def _set(self, part: _Part, kind: Kind, where: tuple[str, str], manifest: Manifest) -> None:
        self._unset(part, kind, where)
        kept = self.kept(manifest)
        part.put(where, kept)
        for key in _owners(kind, kept):
            self._by_consumer.setdefault(key, {})[(kind, *where)] = kept
        for hub in hubs_of(kept) if kind == EVENT_CONSUMER else ():
            self._by_hub.setdefault(hub, {})[Key(*where)] = kept

    def _unset(self, part: _Part, kind: Kind, where: tuple[str, str]) -> None:
        held = part.drop(where)
        for key in _owners(kind, held) if held else ():
            belonging = self._by_consumer[key]
            del belonging[(kind, *where)]
            if not belonging:
                del self._by_consumer[key]
        for hub in hubs_of(held) if held and kind == EVENT_CONSUMER else ():
            readers = self._by_hub[hub]
            del readers[Key(*where)]
            if not readers:
                del self._by_hub[hub]


def _owners(kind: Kind, manifest: Manifest) -> list[Key]:
    return [] if kind == EVENT_CONSUMER else _keys(kind, manifest)


def _keys(kind: Kind, manifest: Manifest) -> list[Key]:
    """The EventConsumer that an object is or names in its label: one or none."""
    metadata = manifest["metadata"]
    name = metadata["name"] if kind == EVENT_CONSUMER else metadata.get("labels", {}).get(labels.LABEL_CONSUMER)
    return [Key(metadata["namespace"], name)] if name else []


def _version(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("resourceVersion", ""))


def _number(version: str) -> int | None:
    return int(version) if version.isdecimal() else None


def _is_older(version: str, other: str) -> bool:
    one, two = _number(version), _number(other)
    return one is not None and two is not None and one < two
