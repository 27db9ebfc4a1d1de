"""A Kubernetes API in memory: server-side apply with field ownership, generations, uids, preconditions.

It passes the same contract tests as the real API server (tests/contract/operator/kube/test_api.py). It has no schemas,
admission, RBAC and controllers; a test that needs them uses the real API server.
"""

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.kube.labels import FIELD_MANAGER
from eventconsumer_operator.errors import Changed, Gone, OperatorError, Refused
from eventconsumer_operator.kube.api import Keep
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER, ObjectList, install_hint, kind_of, name_of
from eventconsumer_operator.kube.store import Store

Where = tuple[Kind, str, str]


class FakeKubernetes:
    """`eventconsumer_operator.kube.api.Api` over a dict.

    Attributes:
        writes: Number of successful writes by verb: apply, apply_status, create, merge, delete.
        reads: Number of reads by verb: get, list.
        watchers: Called with each watch event: ADDED, MODIFIED or DELETED, and the object.
        unserved: Kinds whose definition is not installed.
    """

    def __init__(self) -> None:
        self.writes: Counter[str] = Counter()
        self.reads: Counter[str] = Counter()
        self.watchers: list[Callable[[str, Manifest], None]] = []
        self.unserved: set[Kind] = set()
        self._objects: dict[Where, Manifest] = {}
        self._applied: dict[tuple[Where, str], Manifest] = {}
        self._created: dict[Where, Manifest] = {}  # whose fields are not owned by `Apply` yet
        self._version = 0
        self._failures: list[tuple[str, Callable[[Manifest | None], bool], OperatorError]] = []

    # --- for tests -------------------------------------------------------------------------------------------------

    def fail_once(
        self, verb: str, error: OperatorError, when: Callable[[Manifest | None], bool] = lambda _: True
    ) -> None:
        """Make the next call of `verb` whose manifest satisfies `when` raise `error`, without any effect."""
        self._failures.append((verb, when, error))

    def mirror(self, namespace: str = "shop") -> Store:
        """A store with all objects, which a watch updates without delay."""
        store = Store()
        for kind in store.kinds:
            store.replace(kind, namespace, self._listing(kind, namespace, {}))
        self.watchers.append(lambda event, found: store.remove(found) if event == "DELETED" else store.put(found))
        return store

    def put(self, manifest: Manifest) -> Manifest:
        """Store an object as its owner would: a user's resource, a pod of a controller."""
        where = self._where(manifest)
        stored = copy.deepcopy(manifest)
        before = self._objects.get(where)
        metadata = stored.setdefault("metadata", {})
        if before is None:
            metadata.setdefault("uid", f"uid-{self._next_version():08x}-0000")
            metadata["generation"] = 1
        else:
            metadata["uid"] = before["metadata"]["uid"]
            changed = before.get("spec") != stored.get("spec")
            metadata["generation"] = before["metadata"]["generation"] + int(changed)
            stored.setdefault("status", copy.deepcopy(before.get("status", {})))
        metadata["resourceVersion"] = str(self._next_version())
        self._objects[where] = stored
        self._tell("ADDED" if before is None else "MODIFIED", stored)
        return copy.deepcopy(stored)

    def set_status(self, kind: Kind, namespace: str, name: str, status: dict[str, Any]) -> None:
        """Write a status as a controller of the cluster would."""
        stored = self._objects[kind, namespace, name]
        stored["status"] = copy.deepcopy(status)
        stored["metadata"]["resourceVersion"] = str(self._next_version())
        self._tell("MODIFIED", stored)

    def peek(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """The stored object; KeyError if there is none."""
        return copy.deepcopy(self._objects[kind, namespace, name])

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object and everything it owns, as the garbage collector would."""
        gone = self._objects.pop((kind, namespace, name))
        self._applied = {
            where: applied for where, applied in self._applied.items() if where[0] != (kind, namespace, name)
        }
        uid = gone["metadata"]["uid"]
        gone["metadata"]["resourceVersion"] = str(self._next_version())
        self._tell("DELETED", gone)
        for where, manifest in list(self._objects.items()):
            owners = manifest["metadata"].get("ownerReferences", [])
            if where in self._objects and any(owner["uid"] == uid for owner in owners):
                self.remove(*where)

    # --- Api -------------------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """See `Api`."""
        self._maybe_fail("get", None)
        self.reads["get"] += 1
        return copy.deepcopy(self._objects.get((kind, namespace, name)))

    async def list(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        keep: Keep | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> ObjectList:
        """See `Api`; without `keep`, objects are whole."""
        self._maybe_fail("list", None)
        self.reads["list"] += 1
        if kind in self.unserved:
            raise Gone(f"{kind.plural}: 404 page not found")
        listing = self._listing(kind, namespace, labels or {})
        selected = [
            each
            for each in listing.items
            if all(str(_at(each, path)) == value for path, value in (fields or {}).items())
        ]
        return ObjectList(tuple(selected if keep is None else map(keep, selected)), listing.version)

    async def apply(self, manifest: Manifest) -> Manifest:
        """See `Api`."""
        self._maybe_fail("apply", manifest)
        uid = manifest["metadata"].get("uid")
        before = self._objects.get(self._where(manifest))
        if uid is not None and (before is None or before["metadata"]["uid"] != uid):
            raise Changed(f"{name_of(manifest)} is not the object with uid {uid}")
        self.writes["apply"] += 1
        return self._apply(manifest, "")

    async def apply_status(self, manifest: Manifest) -> Manifest:
        """See `Api`."""
        self._maybe_fail("apply_status", manifest)
        before = self._objects.get(self._where(manifest))
        if before is None:
            raise Gone(f"{name_of(manifest)} does not exist")
        version = before["metadata"]["resourceVersion"]
        if manifest["metadata"].get("resourceVersion", version) != version:
            raise Changed(f"{name_of(manifest)} is at version {version}")
        self.writes["apply_status"] += 1
        identity = {"name": name_of(manifest), "namespace": manifest["metadata"]["namespace"]}
        kept = {name: manifest[name] for name in ("apiVersion", "kind", "status")}
        return self._apply(kept | {"metadata": identity}, "status")

    async def create(self, manifest: Manifest) -> Manifest | None:
        """See `Api`."""
        self._maybe_fail("create", manifest)
        if kind_of(manifest) in self.unserved:
            raise Refused(f"{name_of(manifest)}: {install_hint(kind_of(manifest))}")
        if self._where(manifest) in self._objects:
            return None
        self.writes["create"] += 1
        entry = {"manager": FIELD_MANAGER, "operation": "Update", "fieldsV1": {}}
        metadata = manifest["metadata"] | {"managedFields": [entry]}
        self._created[self._where(manifest)] = copy.deepcopy(manifest)
        return self.put(manifest | {"metadata": metadata})

    async def merge(self, kind: Kind, namespace: str, name: str, change: Manifest) -> Manifest:
        """See `Api`."""
        self._maybe_fail("merge", change)
        if (kind, namespace, name) not in self._objects:
            raise Gone(f"{name} does not exist")
        result = copy.deepcopy(self._objects[kind, namespace, name])
        version = result["metadata"]["resourceVersion"]
        if change.get("metadata", {}).get("resourceVersion", version) != version:
            raise Changed(f"{name} is at version {version}")
        _merge(result, change)
        if any(entry["operation"] == "Apply" for entry in change.get("metadata", {}).get("managedFields", [])):
            self._applied[(kind, namespace, name), ""] = self._created.pop((kind, namespace, name))
        self.writes["merge"] += 1
        return self.put(result)

    async def replace(self, manifest: Manifest) -> Manifest:
        """See `KubernetesApi`."""
        self._maybe_fail("replace", manifest)
        before = self._objects.get(self._where(manifest))
        if before is None:
            raise Gone(f"{name_of(manifest)} does not exist")
        if manifest["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            raise Changed(f"{name_of(manifest)} changed")
        self.writes["replace"] += 1
        return self.put(manifest)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        """See `Api`."""
        self._maybe_fail("delete", None)
        found = self._objects.get((kind, namespace, name))
        if found is not None and found["metadata"]["uid"] == uid:
            self.writes["delete"] += 1
            self.remove(kind, namespace, name)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _apply(self, manifest: Manifest, subresource: str) -> Manifest:
        where = self._where(manifest)
        before = self._objects.get(where)
        if before is None:
            result = self.put(manifest)
        else:
            result = copy.deepcopy(before)
            _remove(result, self._applied.get((where, subresource), {}), manifest)
            _merge(result, manifest)
            if result != before:
                generation = before["metadata"]["generation"]
                result["metadata"]["generation"] = generation + int(result.get("spec") != before.get("spec"))
                result["metadata"]["resourceVersion"] = str(self._next_version())
                self._objects[where] = result
                self._tell("MODIFIED", result)
        self._applied[where, subresource] = copy.deepcopy(manifest)
        return copy.deepcopy(result)

    def _listing(self, kind: Kind, namespace: str, labels: Mapping[str, str]) -> ObjectList:
        items = tuple(
            copy.deepcopy(manifest)
            for (each, place, _), manifest in sorted(self._objects.items(), key=lambda item: item[0][2])
            if each == kind
            and namespace in {"", place}
            and labels.items() <= manifest["metadata"].get("labels", {}).items()
        )
        return ObjectList(items, str(self._version))

    def _tell(self, event: str, manifest: Manifest) -> None:
        for watcher in self.watchers:
            watcher(event, copy.deepcopy(manifest))

    def _maybe_fail(self, verb: str, manifest: Manifest | None) -> None:
        for failure in self._failures:
            if failure[0] == verb and failure[1](manifest):
                self._failures.remove(failure)
                raise failure[2]

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    @staticmethod
    def _where(manifest: Manifest) -> Where:
        return kind_of(manifest), manifest["metadata"]["namespace"], name_of(manifest)


def _at(manifest: Any, path: str) -> Any:
    """The value at a path of fields; empty where there is none."""
    for name in path.split("."):
        manifest = manifest.get(name, {}) if isinstance(manifest, dict) else {}
    return manifest or ""


def _remove(live: dict[str, Any], formerly: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Remove fields from `live` that an earlier apply set and this one omits."""
    for name, value in formerly.items():
        if name not in now:
            live.pop(name, None)
        elif isinstance(value, dict) and isinstance(live.get(name), dict) and isinstance(now[name], dict):
            _remove(live[name], value, now[name])


def _merge(live: dict[str, Any], applied: Mapping[str, Any]) -> None:
    for name, value in applied.items():
        if isinstance(value, dict) and isinstance(live.get(name), dict):
            _merge(live[name], value)
        else:
            live[name] = copy.deepcopy(value)


def event_consumer(name: str, spec: dict[str, Any], namespace: str = "shop") -> Manifest:
    """An EventConsumer manifest."""
    return {
        "apiVersion": EVENT_CONSUMER.api_version,
        "kind": EVENT_CONSUMER.name,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
