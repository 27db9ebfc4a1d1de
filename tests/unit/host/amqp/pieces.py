"""Messages as a link gives them."""

from array import array
from collections.abc import Sequence
from itertools import accumulate

from eventconsumer_host.amqp.wire import Deliveries


def piece(payloads: Sequence[bytes], head: bytes = b"") -> Deliveries:
    """Messages that came together, each behind a head."""
    stops = accumulate(len(head) + len(payload) for payload in payloads)
    return Deliveries(b"".join(head + payload for payload in payloads), len(head), array("q", stops))


def came(payloads: Sequence[bytes]) -> list[Deliveries]:
    """Messages some of which came together, and some alone."""
    found = []
    for start in range(0, len(payloads), 10):
        found.append(Deliveries.of(payloads[start]))
        if together := payloads[start + 1 : start + 10]:
            found.append(piece(together, b"<head>"))
    return found
