"""Reads the records of chain and leases, and the record that a host of a configuration expects to find."""

from dataclasses import dataclass

from pydantic import ValidationError

from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.identity import RECORD_MAX_BYTES, LeaseRecord, chain_identity
from eventconsumer_processor.identity import records
from eventconsumer_processor.identity.records import Stored
from eventconsumer_processor.sink.slots import incarnation, utc_now
from eventconsumer_processor.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Damaged, NotFound


@dataclass(frozen=True)
class StoredLeases:
    """The record of the leases, and the ETag of its blob."""

    record: LeaseRecord
    etag: str


async def read_chain_record(sink: BlobStore, prefix: str) -> Stored | None:
    """The record of a chain; None where the record or the container does not exist.

    Raises:
        Damaged: It cannot be read.
        StorageError: The request failed.
    """
    try:
        return await records.read_chain(sink, prefix)
    except NotFound:
        return None


async def read_lease_record(leases: BlobStore, name: str) -> StoredLeases | None:
    """The record of the leases; None where the record or the container does not exist.

    Args:
        leases: The container.
        name: Of the record's blob.

    Raises:
        Damaged: It cannot be read.
        StorageError: The request failed.
    """
    try:
        blob = await leases.read(name, RECORD_MAX_BYTES)
    except NotFound:
        return None
    if blob is None:
        return None
    try:
        return StoredLeases(LeaseRecord.model_validate_json(blob.data), blob.info.etag)
    except ValidationError:
        raise Damaged(f"the record of the leases, blob {name}, cannot be read: restore it from a backup") from None


def expected_lease_record(config: HostConfig, info: HubInfo, chain: str, account: str) -> LeaseRecord:
    """The record that a host of this configuration expects.

    Args:
        config: The consumer.
        info: Its hub.
        chain: Identity of the chain; empty where it has not begun.
        account: Name of the storage account of the files.
    """
    sink = config.sink
    chain = chain or chain_identity(account, sink.container, sink.prefix, incarnation(info))
    return records.lease_record(config, info, chain, account, utc_now())
