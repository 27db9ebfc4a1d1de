"""The lease store of a host, as the host process makes it."""

from collections.abc import Callable
from typing import Any

from eventconsumer_api.host_config import HostConfig
from eventconsumer_processor.lease.store import LeaseStore
from eventconsumer_processor.source.hub import HubInfo


def lease_store(config: HostConfig, info: HubInfo, blobs: Any, clock: Callable[[], float]) -> Any:
    """By the configured layout."""
    return LeaseStore(
        blobs, config.leases.location.prefix, config.event_hub.consumer_group, config.leases.duration_seconds, clock
    )
