"""Delay of few events on their link, so that more of them are decoded together. Pure.

The fixed cost of a batch is the same for one event as for many. Events that are only written to files wait for up to
half a second, and less if files have a short maximum age. Events for a handler do not wait.
"""

from eventconsumer_api.v1alpha1 import Processing, Roll
from eventconsumer_processor.amqp.link import LINGER_SECONDS

FILE_SECONDS = 0.5
FILE_PART = 20  # share of the maximum age of a file


def linger_seconds(roll: Roll, processing: Processing) -> float:
    """Seconds between two reads of few events from a link.

    Args:
        roll: Limits of a file.
        processing: Whether there is a handler.
    """
    if processing.handler is not None:
        return LINGER_SECONDS
    return max(LINGER_SECONDS, min(FILE_SECONDS, roll.max_seconds / FILE_PART))
