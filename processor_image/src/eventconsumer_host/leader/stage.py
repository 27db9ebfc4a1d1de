"""What the tasks of a leading host work with: the consumer, its storage, and the files that `tail` follows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random

from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_host.batch.log import BatchLog
from eventconsumer_host.leader.tail import Tail, segments_of
from eventconsumer_host.leader.task import Partitions, View
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.sink.slots import utc_now
from eventconsumer_host.source.hub import Hub, HubInfo
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.confined.reader import Confined, Reader
from eventconsumer_storage.lease_time import boottime


@dataclass(frozen=True)
class Stage:
    """The surroundings of the tasks.

    Attributes:
        config: The consumer.
        hub: Its hub.
        info: The properties of the hub at registration.
        chain: Identity of its chain.
        blobs: The container of the files.
        batches: The Spark batches.
        tail: The files.
        metrics: Counts what tasks do.
        confined: Reads what others may have written.
        now: Wall clock, in UTC.
        clock: Seconds, for durations.
        rng: Varies pauses.
        check: Called before each change; raises if this host must not write any more.
    """

    config: HostConfig
    hub: Hub
    info: HubInfo
    chain: str
    blobs: BlobStore
    batches: BatchLog
    tail: Tail
    metrics: Metrics
    confined: Confined
    now: Callable[[], datetime]
    clock: Callable[[], float]
    rng: Random
    check: Callable[[], None] = lambda: None

    @property
    def prefix(self) -> str:
        """Folder of the files."""
        return self.config.sink.prefix


def view_of(partitions: Partitions) -> View:
    """What a host knows of the fleet now."""
    commits = {each.id: each.next_sequence_number for each in partitions.reports() if each.next_sequence_number}
    return View(partitions.partition_ids, partitions.listing.leases, commits)


def stage_of(
    config: HostConfig, hub: Hub, info: HubInfo, segments: Sequence[SegmentRecord], blobs: BlobStore, *, chain: str = ""
) -> Stage:
    """The surroundings of tasks in a process that is no host: the probe, or a command. Sends no request.

    Args:
        config: The consumer.
        hub: Its hub.
        info: The properties of the hub.
        segments: The segments of the chain, the newest last.
        blobs: The container of the files.
        chain: Identity of the chain; empty: of no use for the tasks.
    """
    return Stage(
        config,
        hub,
        info,
        chain,
        blobs,
        BatchLog(blobs, config.sink.prefix),
        Tail(segments_of(config, info, segments, blobs, utc_now), utc_now),
        Metrics(),
        Reader(),
        utc_now,
        boottime,
        Random(),  # noqa: S311 - for jitter, not for security
    )
