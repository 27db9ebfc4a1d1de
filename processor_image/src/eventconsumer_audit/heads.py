"""Compares the ends of the chains with the ends of the hub's partitions: lag, expired events, files of another hub."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_audit.chain import ChainAudit
from eventconsumer_audit.codes import Code
from eventconsumer_audit.model import ChainKey, Findings


class HubProperties(Protocol):
    """Properties of an Event Hub."""

    @property
    def created_at(self) -> datetime:
        """When it was created; another time means that it was deleted and created again."""

    @property
    def partition_ids(self) -> tuple[str, ...]:
        """The ids of its partitions."""


class PartitionRange(Protocol):
    """The events that a partition retains, by sequence number."""

    @property
    def last(self) -> int:
        """Of the last event; -1: there was none."""

    @property
    def earliest(self) -> int:
        """Of the first retained event, or of the next one if none is retained."""


class HubQueries(Protocol):
    """The queries of an Event Hub that the audit sends; both raise EventConsumerError."""

    async def describe(self) -> HubProperties:
        """Request the properties of the hub."""

    async def partition(self, partition: str) -> PartitionRange:
        """Request the retained range of a partition."""


async def compare(
    hub: HubQueries,
    segment: SegmentRecord | None,
    current: str,
    chains: Mapping[ChainKey, ChainAudit],
    findings: Findings,
) -> dict[str, int]:
    """Compare all chains of the current segment with the hub.

    Args:
        hub: Queried for properties only; no reader attaches.
        segment: The newest; None: no record.
        current: The current segment; empty: unknown.
        chains: As listed before, so that a chain's end is never after the hub's end.
        findings: Collects findings; an unreachable hub is only a note.

    Returns:
        Last sequence number by partition; incomplete if the hub was not reached.
    """
    heads: dict[str, int] = {}
    try:
        info = await hub.describe()
        if segment and segment.hub.created_at != info.created_at:
            text = f"the hub was created at {info.created_at.isoformat()}, but the hub of the files at "
            text += (
                f"{segment.hub.created_at.isoformat()}: hosts compare its events with the files before they continue"
            )
            findings.add(Code.HUB_RENEWED, text)
        for partition in info.partition_ids:
            found = await hub.partition(partition)
            heads[partition] = found.last
            if chain := chains.get((current, partition)):
                _compare(chain, found, findings)
    except EventConsumerError as error:
        findings.add(Code.HUB_UNKNOWN, f"could not query the hub, lag is unknown: {error}")
    return heads


def _compare(chain: ChainAudit, info: PartitionRange, findings: Findings) -> None:
    if chain.next is None:
        return
    place = (chain.segment_id, chain.partition)
    if chain.files and chain.next > info.last + 1:
        findings.add(Code.END_ABOVE_HEAD, f"the files end at {chain.next - 1}, but the hub ends at {info.last}", place)
    elif chain.next < info.earliest:
        text = f"events {chain.next} to {info.earliest - 1} expired in the hub before they were written to a file"
        findings.add(Code.RETENTION_PASSED, text, place)
