"""How long few events wait on their link for more, so that they are decoded and kept together. Pure.

Decoding and keeping a batch costs the same for one event as for many. Events that only become files have time: they
wait for up to half a second, and less where files must be young. Events that a handler gets have none.
"""

from eventconsumer_api.v1alpha1 import Processing, Roll
from eventconsumer_processor.amqp.link import LINGER_SECONDS

FILE_SECONDS = 0.5
FILE_PART = 20  # of the age that a file may have at most


def linger_seconds(roll: Roll, processing: Processing) -> float:
    """Seconds between two takes of few events from a link.

    Args:
        roll: When a file is complete.
        processing: Whether there is a handler.
    """
    if processing.handler is not None:
        return LINGER_SECONDS
    return max(LINGER_SECONDS, min(FILE_SECONDS, roll.max_seconds / FILE_PART))
