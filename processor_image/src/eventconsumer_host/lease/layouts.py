"""Selects the layout of lease and checkpoint blobs by the resource."""

from collections.abc import Callable

from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import lease_prefix
from eventconsumer_host.lease.azuresdk import Names
from eventconsumer_host.lease.azuresdk_store import AzureSdkStore
from eventconsumer_host.lease.eventprocessorhost_store import EventProcessorHostStore
from eventconsumer_host.lease.store import LeaseStore
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobStore


def lease_store(config: HostConfig, info: HubInfo, blobs: BlobStore, clock: Callable[[], float]) -> LeaseStore:
    """The leases of a consumer.

    Args:
        config: Names the layout, the prefix and the consumer group.
        info: The hub; the SDKs' names contain its namespace and name.
        blobs: The lease container.
        clock: Seconds; must continue during suspend.
    """
    seconds, names = config.leases.duration_seconds, lease_names(config, info)
    if config.leases.layout is LeaseLayout.AZURE_SDK:
        return AzureSdkStore(blobs, names, seconds, clock)
    return EventProcessorHostStore(blobs, names.prefix, names.group, seconds, clock, dialect=config.leases.dialect)


def lease_names(config: HostConfig, info: HubInfo) -> Names:
    """Names of the lease blobs; the layout EventProcessorHost uses only the prefix and the consumer group."""
    name = config.replay.name if config.replay else ""
    prefix = lease_prefix(config.leases.location.prefix, config.leases.layout, info.namespace, info.name, name)
    return Names(prefix, info.host or info.namespace, info.name, config.event_hub.consumer_group)
