"""Writes through the store: answers of the API server are in the store before the next reconcile.

Without this, a reconcile right after a write would see the objects from before it. After a conflict (HTTP 409) the
object is read directly, so the next attempt sees its current state, even if the watch is late.
"""

from collections.abc import Mapping

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.kube.labels import LABEL_MANAGED_BY, MANAGED_BY
from eventconsumer_operator.errors import Changed, Gone
from eventconsumer_operator.kube.api import Api, Keep
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER, ObjectList, kind_of, name_of, trimmed
from eventconsumer_operator.kube.store import Store


class WriteThrough:
    """`Api` that puts all answers into a store."""

    def __init__(self, api: Api, store: Store) -> None:
        """Write with `api`, and put the answers into `store`."""
        self._api = api
        self._store = store

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """See `Api`: a direct read. The object may lack the operator's label, so it is not put into the store."""
        return await self._api.get(kind, namespace, name)

    async def list(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        keep: Keep = trimmed,
        fields: Mapping[str, str] | None = None,
    ) -> ObjectList:
        """See `Api`: a direct read. Found objects are put into the store; absent ones may only lack the labels."""
        listing = await self._api.list(kind, namespace, labels, keep, fields)
        for found in listing.items:
            if found["metadata"].get("labels", {}).get(LABEL_MANAGED_BY) == MANAGED_BY:
                self._store.put(found)
        return listing

    async def apply(self, manifest: Manifest) -> Manifest:
        """See `Api`."""
        try:
            result = await self._api.apply(manifest)
        except Changed:
            await self._read_again(kind_of(manifest), manifest)
            raise
        self._store.put(result)
        return result

    async def apply_status(self, manifest: Manifest) -> Manifest:
        """See `Api`."""
        try:
            result = await self._api.apply_status(manifest)
        except Changed:
            await self._read_again(EVENT_CONSUMER, manifest)
            raise
        except Gone:
            self._store.forget(EVENT_CONSUMER, manifest["metadata"]["namespace"], name_of(manifest))
            raise
        self._store.put(result)
        return result

    async def create(self, manifest: Manifest) -> Manifest | None:
        """See `Api`."""
        result = await self._api.create(manifest)
        if result is not None:
            self._store.put(result)
        return result

    async def merge(self, kind: Kind, namespace: str, name: str, change: Manifest) -> Manifest:
        """See `Api`."""
        result = await self._api.merge(kind, namespace, name, change)
        self._store.put(result)
        return result

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        """See `Api`. An object with finalizers comes back with its next event."""
        await self._api.delete(kind, namespace, name, uid)
        held = self._store.get(kind, namespace, name)
        if held is not None and held["metadata"]["uid"] == uid:
            self._store.forget(kind, namespace, name)

    async def _read_again(self, kind: Kind, manifest: Manifest) -> None:
        namespace, name = manifest["metadata"]["namespace"], name_of(manifest)
        found = await self._api.get(kind, namespace, name)
        held = self._store.get(kind, namespace, name)
        if found is None:
            self._store.forget(kind, namespace, name)
        elif held is not None:
            self._store.put(found)
