"""The first event of a link that counts.

A link may start before the position that it was opened at: on Azure, a link for the events above 1276, the last event,
delivered the events from 1272 on (Azure/azure-sdk-for-java, issue 29502). So the number of a link's first event proves
nothing: only an event at or above the wanted number tells whether the wanted one is there.
"""

from typing import TYPE_CHECKING

from eventconsumer_host.source.hub import Source

if TYPE_CHECKING:  # callers that only read properties do not load Arrow
    from eventconsumer_host.source.batch import EventBatch


async def first_from(source: Source, number: int, seconds: float) -> "EventBatch | None":
    """The first event with a sequence number of `number` or above; earlier ones are dropped.

    Args:
        source: A link opened for it.
        number: The sequence number.
        seconds: How long to wait for each event.

    Returns:
        A batch of one event; None: none arrived in time.

    Raises:
        SourceError: The link is lost.
    """
    while True:
        batch = await source.receive(1, seconds)
        if not len(batch):
            return None
        if batch.last >= number:
            return batch.head(1)
