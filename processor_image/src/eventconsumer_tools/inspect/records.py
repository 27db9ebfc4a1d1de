"""Reads the records of chain and leases, and the record that a host of a configuration expects to find."""

from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import ChainRecord, LeaseRecord, chain_identity
from eventconsumer_host.identity import records
from eventconsumer_host.identity.records import StoredRecord
from eventconsumer_host.sink.slots import segment_id, utc_now
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import NotFound


async def read_chain_record(sink: BlobStore, prefix: str) -> StoredRecord[ChainRecord] | None:
    """The record of a chain; None where the record or the container does not exist.

    Raises:
        Damaged: It cannot be read.
        StorageError: The request failed.
    """
    try:
        return await records.read_chain(sink, prefix)
    except NotFound:
        return None


def expected_lease_record(config: HostConfig, info: HubInfo, chain: str, account: str) -> LeaseRecord:
    """The record that a host of this configuration expects, for comparison: without the spelling of its names.

    Args:
        config: The consumer.
        info: Its hub.
        chain: Identity of the chain; empty where it has not begun.
        account: Name of the storage account of the files.
    """
    sink = config.sink
    chain = chain or chain_identity(account, sink.container, sink.prefix, segment_id(info))
    return records.lease_record(config, info, chain, account, utc_now(), spelling="")
