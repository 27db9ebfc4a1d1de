"""Compares the ends of the chains with the ends of the hub's partitions: lag, expired events, files of another hub."""

from collections.abc import Mapping

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.wire.identity import HubSegment
from eventconsumer_audit.chain import ChainAudit
from eventconsumer_audit.codes import Code
from eventconsumer_audit.model import Findings, Place
from eventconsumer_host.source.hub import Hub, PartitionInfo


async def compare(
    hub: Hub, segment: HubSegment | None, current: str, chains: Mapping[Place, ChainAudit], findings: Findings
) -> dict[str, int]:
    """Compare all chains of the current incarnation with the hub.

    Args:
        hub: Queried for properties only; no reader attaches.
        segment: The newest; None: no record.
        current: The current incarnation; empty: unknown.
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


def _compare(chain: ChainAudit, info: PartitionInfo, findings: Findings) -> None:
    if chain.next is None:
        return
    place = (chain.incarnation, chain.partition)
    if chain.files and chain.next > info.last + 1:
        findings.add(Code.END_ABOVE_HEAD, f"the files end at {chain.next - 1}, but the hub ends at {info.last}", place)
    elif chain.next < info.earliest:
        text = f"events {chain.next} to {info.earliest - 1} expired in the hub before they were written to a file"
        findings.add(Code.RETENTION_PASSED, text, place)
