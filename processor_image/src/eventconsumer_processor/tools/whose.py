"""Whose the chain and the leases of a configuration are, as storage says it before a host starts. Only reads."""

from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.identity import LeaseRecord, chain_identity, chain_name
from eventconsumer_processor import problems
from eventconsumer_processor.identity import records as identity
from eventconsumer_processor.identity.records import (
    Stored,
    belongs,
    leader_name,
    misfit,
    read_chain,
    read_leases_record,
)
from eventconsumer_processor.lease.layouts import lease_store
from eventconsumer_processor.sink.slots import incarnation, utc_now
from eventconsumer_processor.source.hub import Hub, HubInfo
from eventconsumer_processor.tools.checking import Checks
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import NotFound
from eventconsumer_storage.lease_time import boottime

CHAIN, LEASES = "chain-identity", "lease-identity"


async def read_chain_of(sink: BlobStore, prefix: str) -> Stored | None:
    """The record of a chain; None where there is none, or not even the container.

    Raises:
        Damaged: It cannot be read.
        StorageError: The request failed.
    """
    try:
        return await read_chain(sink, prefix)
    except NotFound:
        return None


async def check_chain(config: HostConfig, sink: BlobStore, checks: Checks) -> Stored | None:
    """Whether `spec.sink` has no chain yet, or the chain of this resource; the record.

    Raises:
        StorageError: A request failed.
    """
    prefix, own = config.sink.prefix, config.resource
    where = f"{config.sink.container}/{prefix}"
    if outer := await _outer(sink, prefix):
        checks.failed(
            CHAIN,
            f"spec.sink.prefix {prefix} lies in {outer}, where EventConsumers drain into a chain of their own",
            f"set a spec.sink.prefix that does not begin with {outer}/",
        )
        return await read_chain_of(sink, prefix)
    found = await read_chain_of(sink, prefix)
    if found is None:
        checks.passed(CHAIN, f"no chain of files is at {where} yet: the first host begins it")
    elif found.record.resource.path == own.path:
        checks.passed(CHAIN, f"the chain of files at {where} is this EventConsumer's: its hosts continue it")
    else:
        other = found.record.resource
        info = await sink.head(leader_name(prefix))
        runs = "its hosts run" if info is not None and info.leased else "none of its hosts leads"
        checks.failed(
            CHAIN,
            f"the chain of files at {where} is that of EventConsumer {other.path} (uid {other.uid}), and {runs}",
            f"set another spec.sink.prefix; or, to move the files, suspend or delete {other.path} and run "
            f"kubectl eventconsumer adopt {own.name} -n {own.namespace}",
        )
    return found


def lease_record(config: HostConfig, info: HubInfo, chain: str, account: str) -> LeaseRecord:
    """The record that a host of this configuration wants to find; `chain` is empty where it has not begun."""
    sink = config.sink
    chain = chain or chain_identity(account, sink.container, sink.prefix, incarnation(info))
    return identity.lease_record(config, info, chain, account, utc_now())


async def check_leases(
    config: HostConfig, leases: BlobStore, wanted: LeaseRecord, checks: Checks, *, hub: Hub, info: HubInfo
) -> None:
    """Whether the place of the leases is free, this hub's and this chain's, or an old program's that fits the hub.

    Args:
        config: The consumer.
        leases: The lease container.
        wanted: The record that its hosts want to find.
        checks: Takes what is found.
        hub: Asked how far partitions reach, where leases have no record.
        info: Its facts.

    Raises:
        SourceError: The hub did not answer.
        StorageError: A request failed.
    """
    store, container = lease_store(config, info, leases, boottime), config.leases.location.container
    folder = store.folder.rstrip("/")
    where = f"{container}/{folder}"
    found = await read_leases_record(leases, folder)
    if found is not None:
        if belongs(found, wanted):
            checks.passed(LEASES, f"the leases at {where} are of this hub and this chain")
        else:
            _failed(checks, problems.leases_in_use(container, folder, found, wanted).message)
        return
    there = await store.existing()
    if not there:
        checks.passed(LEASES, f"no leases are at {where} yet: the first host makes them")
    elif why := await misfit(config, there, hub, info, read=False):
        _failed(checks, problems.leases_do_not_fit(container, folder, why).message)
    else:
        checks.passed(LEASES, f"{len(there)} leases of another program at {where} fit the hub: hosts take them over")


async def _outer(sink: BlobStore, prefix: str) -> str:
    """A folder around the prefix that has a chain; empty: none. A replay lies in the folder of its consumer."""
    parts = prefix.split("/")
    for length in range(1, len(parts)):
        outer = "/".join(parts[:length])
        if not prefix.startswith(f"{outer}/_replays/"):
            try:
                if await sink.head(chain_name(outer)) is not None:
                    return outer
            except NotFound:  # the container
                return ""
    return ""


def _failed(checks: Checks, message: str) -> None:
    """Messages of problems name cause and remedy, with a colon between."""
    cause, colon, remedy = message.partition(": ")
    checks.failed(LEASES, cause if colon else message, remedy)
