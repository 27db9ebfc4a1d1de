"""Files and leases of a campaign's consumers in storage, as a person with the account's key reaches them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobLeaseClient, BlobServiceClient, ContainerClient

from tests.chaos.schedule import NoTarget

TIMEOUT_SECONDS = 5  # storage may be frozen


class Storage:
    """An account.

    Args:
        connection: Connection string of the account.
        sink: Container of the files of all consumers.
        leases: Container of the leases of all consumers.

    Methods raise `AzureError` if storage refuses a request or does not respond.
    """

    def __init__(self, connection: str, sink: str, leases: str) -> None:
        self.connection = connection
        self.sink = sink
        self.leases = leases

    @property
    def endpoint(self) -> str:
        """URL of the account."""
        return self.connection.partition("BlobEndpoint=")[2].partition(";")[0]

    def has_sink(self) -> bool:
        """Whether the container of the files exists."""
        with self._container(self.sink) as sink:
            return sink.exists()

    def lease_blobs(self, consumer: str) -> list[str]:
        """Names of the blobs of partition leases, sorted. The consumer has the name of its hub."""
        with self._container(self.leases) as leases:
            return sorted(name for name in leases.list_blob_names() if f"/{consumer}/" in name and "~" not in name)

    def drained_until(self, consumer: str, partition: str) -> int:
        """A sequence number of which all before it are in files: the one at which the newest file begins.

        Raises:
            NoTarget: The partition has no file.
        """
        place = f"/partition={partition}/from="
        with self._container(self.sink) as sink:
            names = [name for name in sink.list_blob_names(name_starts_with=f"{consumer}/segment=") if place in name]
        if not names:
            raise NoTarget(f"partition {partition} of {consumer} has no file")
        return max(int(name.partition(place)[2].partition(".")[0]) for name in names)

    def watermark(self, consumer: str) -> dict[str, Any]:
        """The record `_watermark.json` of a consumer; empty: there is none yet."""
        with self._container(self.sink) as sink, sink.get_blob_client(f"{consumer}/_watermark.json") as blob:
            try:
                found: dict[str, Any] = json.loads(blob.download_blob().readall())
            except ResourceNotFoundError:
                return {}
            return found

    def break_lease(self, container: str, name: str) -> None:
        """Break the lease of a blob at once, as a person does in the portal.

        Raises:
            NoTarget: The blob has no lease.
        """
        with self._container(container) as folder, folder.get_blob_client(name) as blob:
            if not blob.exists() or blob.get_blob_properties().lease.state != "leased":
                raise NoTarget(f"{name} is not leased")
            BlobLeaseClient(blob).break_lease(lease_break_period=0)

    def delete_lease_blob(self, name: str) -> None:
        """Break the lease of a partition's blob, and delete the blob.

        Raises:
            AzureError: A host has acquired the lease again meanwhile.
        """
        with contextlib.suppress(NoTarget):
            self.break_lease(self.leases, name)
        with self._container(self.leases) as leases:
            leases.delete_blob(name)

    @contextlib.contextmanager
    def _container(self, name: str) -> Iterator[ContainerClient]:
        """A client that gives up soon."""
        with BlobServiceClient.from_connection_string(
            self.connection, retry_total=0, connection_timeout=TIMEOUT_SECONDS, read_timeout=TIMEOUT_SECONDS
        ) as service:
            yield service.get_container_client(name)
