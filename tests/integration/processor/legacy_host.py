"""The lease rules of the .NET EventProcessorHost, written from what that library does, for tests beside our hosts.

It keeps its rules, weak ones too: it writes the body it read before it took the lease, with a lease id but without an
etag, and the owner's metadata by a request of its own. It reads no events: what is enqueued counts as processed.
"""

import json
import math
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import BlobClient, BlobLeaseClient, BlobProperties, ContainerClient

OWNER = "OWNINGHOST"
KEYS = ["Offset", "SequenceNumber", "PartitionId", "Owner", "Token", "Epoch"]


class LegacyLeaseLost(Exception):
    """409 or 412 with a code that says so."""


@dataclass
class LegacyHost:
    """One such host; `step` is one turn of its loop."""

    name: str
    container: ContainerClient
    group: str = "$Default"
    seconds: int = 15
    owned: dict[str, dict[str, Any]] = field(default_factory=dict)  # partition -> the lease of its pump

    def register(self, partitions: list[str]) -> None:
        """Create the blobs that are missing."""
        for partition in partitions:
            fresh = dict(zip(KEYS, [None, 0, partition, "", "", 0], strict=True))
            try:
                self._blob(partition).upload_blob(json.dumps(fresh, separators=(",", ":")), overwrite=False)
            except ResourceExistsError:
                continue

    def step(self) -> None:
        """Renew, take what expired, steal one; drop the pumps of what was lost."""
        listed = {blob.name.rsplit("/", 1)[1]: blob for blob in self._list()}
        owners = {partition: (blob.metadata or {}).get(OWNER) for partition, blob in listed.items()}
        alive = {partition for partition, blob in listed.items() if blob.lease.state == "leased"}
        for partition in alive:
            if owners[partition] == self.name and partition in self.owned:
                try:
                    self._lease(partition, self.owned[partition]["Token"]).renew()
                except HttpResponseError as error:
                    self._check_lost(error)
                    owners[partition] = None
        mine = [partition for partition in alive if owners[partition] == self.name]
        hosts = {owner for partition, owner in owners.items() if owner and partition in alive} or {self.name}
        wanted = math.ceil(len(listed) / len(hosts)) - len(mine)
        for partition in sorted(set(listed) - alive)[: max(0, wanted)]:
            if self._acquire(partition, self.read(partition)):
                owners[partition] = self.name
        self._steal({p: owner for p, owner in owners.items() if p in alive and owner != self.name}, len(mine), owners)
        for partition in [p for p in self.owned if owners[p] != self.name]:
            del self.owned[partition]

    def checkpoint(self, partition: str, offset: str, number: int) -> bool:
        """Write a checkpoint of a partition it has a pump for; whether it still had the lease."""
        lease = self.owned[partition] | {"Offset": offset, "SequenceNumber": number}
        try:
            self._upload(partition, lease, {OWNER: self.name})
        except LegacyLeaseLost:
            del self.owned[partition]
            return False
        self.owned[partition] = lease
        return True

    def release_all(self) -> None:
        """Unregister."""
        for partition, lease in list(self.owned.items()):
            del self.owned[partition]
            try:
                self._set_owner(partition, {}, lease["Token"])
                self._upload(partition, lease | {"Owner": "", "Token": ""}, {}, lease["Token"])
                self._lease(partition, lease["Token"]).release()
            except LegacyLeaseLost:
                continue

    def read(self, partition: str) -> dict[str, Any]:
        """The body of a lease; its deserializer ignores the case of keys."""
        body = json.loads(self._blob(partition).download_blob().readall())
        return {key: next((body[k] for k in body if k.lower() == key.lower()), None) for key in KEYS}

    def _steal(self, others: dict[str, str | None], mine: int, owners: dict[str, str | None]) -> None:
        counts = Counter(owner for owner in others.values() if owner)
        if not counts:
            return
        biggest, most = counts.most_common(1)[0]
        if most - mine < 2:
            return
        partition = next(p for p, owner in others.items() if owner == biggest)
        lease = self.read(partition)
        if lease["Owner"] == biggest and self._properties(partition).lease.state == "leased":
            owners[partition] = self.name if self._acquire(partition, lease) else None

    def _acquire(self, partition: str, lease: dict[str, Any]) -> bool:
        token = str(uuid.uuid4())
        try:
            if self._properties(partition).lease.state == "leased":
                if not lease["Token"]:
                    return False
                self._lease(partition, lease["Token"]).change(token)
                self._lease(partition, token).renew()
            else:
                self._lease(partition, token).acquire(self.seconds)
            lease = lease | {"Owner": self.name, "Token": token, "Epoch": lease["Epoch"] + 1}
            self._set_owner(partition, {OWNER: self.name}, token)
            self._upload(partition, lease, {OWNER: self.name})
        except HttpResponseError as error:
            self._check_lost(error)
            return False
        except LegacyLeaseLost:
            return False
        self.owned[partition] = lease
        return True

    def _set_owner(self, partition: str, metadata: dict[str, str], token: str) -> None:
        try:
            self._blob(partition).set_blob_metadata(metadata, lease=token)
        except HttpResponseError as error:
            self._check_lost(error)
            raise LegacyLeaseLost from error

    def _upload(self, partition: str, lease: dict[str, Any], metadata: dict[str, str], token: str = "") -> None:
        body = json.dumps({key: lease[key] for key in KEYS}, separators=(",", ":"))
        options: dict[str, Any] = {"lease": token or lease["Token"]}
        try:
            self._blob(partition).upload_blob(body, overwrite=True, metadata=metadata, **options)
        except HttpResponseError as error:
            self._check_lost(error)
            raise LegacyLeaseLost from error

    def _check_lost(self, error: HttpResponseError) -> None:
        """What that library takes for a lost lease; anything else fails the test."""
        code = getattr(error, "error_code", None)
        known = {"LeaseLost", "LeaseIdMismatchWithLeaseOperation", "LeaseIdMismatchWithBlobOperation", None}
        # Between our release and our acquisition of its lease; that library gives it to the caller of its checkpoint.
        known.add("LeaseNotPresentWithBlobOperation")
        if error.status_code not in {409, 412} or getattr(code, "value", code) not in known | {"LeaseAlreadyPresent"}:
            raise error

    def _list(self) -> list[BlobProperties]:
        return list(self.container.list_blobs(f"{self.group}/", include=["metadata"]))

    def _properties(self, partition: str) -> BlobProperties:
        return self._blob(partition).get_blob_properties()

    def _blob(self, partition: str) -> BlobClient:
        return self.container.get_blob_client(f"{self.group}/{partition}")

    def _lease(self, partition: str, token: str) -> "_Lease":
        return _Lease(BlobLeaseClient(self._blob(partition), token), token)


@dataclass
class _Lease:
    client: BlobLeaseClient
    token: str

    def acquire(self, seconds: int) -> None:
        self.client.acquire(lease_duration=seconds)

    def change(self, proposed: str) -> None:
        self.client.change(proposed)

    def renew(self) -> None:
        self.client.renew()

    def release(self) -> None:
        self.client.release()
