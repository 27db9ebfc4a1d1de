"""What the broker does on the wire that AMQP 1.0 allows, and Event Hubs does seldom or never."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wire:
    """Options of all connections that are opened after they are set.

    Attributes:
        split: Bytes of payload in a transfer; 0: as many as the receiver's frames hold.
        abort_every: An aborted delivery precedes every delivery with a number that this divides; 0: never.
        tag_bytes: Bytes of a delivery tag. Event Hubs sends empty tags, and tags of 16 bytes to some clients.
        unsettled: Deliveries are not settled: the receiver must settle them.
        window: Transfers that a client may send before the broker renews its window; 0: thousands.
        late_seconds: The broker answers an attach of a partition after this time.
        max_frame: Bytes of a frame that the broker accepts.
    """

    split: int = 0
    abort_every: int = 0
    tag_bytes: int = 0
    unsettled: bool = False
    window: int = 0
    late_seconds: float = 0.0
    max_frame: int = 65536
