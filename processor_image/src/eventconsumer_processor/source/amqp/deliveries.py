"""Deliveries as they came: bytes in one piece, and where in them each message is.

What a link keeps costs two numbers for each message, and no object: many come in one read, and are decoded together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Deliveries:
    """Whole deliveries of one link, in the order they came.

    Attributes:
        data: Their messages, with whatever is between them.
        starts, stops: Where each message starts and ends in it; they rise.
    """

    data: bytes
    starts: Positions
    stops: Positions

    @classmethod
    def of(cls, payloads: Sequence[bytes]) -> "Deliveries":
        """Messages that came each by itself."""
        stops = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)), dtype=np.int64)
        return cls(b"".join(payloads), np.concatenate((np.zeros(1, np.int64), stops))[: len(payloads)], stops)

    def __len__(self) -> int:
        return len(self.stops)

    def payload(self, index: int) -> bytes:
        """The bytes of one message."""
        return self.data[self.starts[index] : self.stops[index]]

    def payloads(self) -> list[bytes]:
        """The bytes of each."""
        data = self.data
        return [data[start:stop] for start, stop in zip(self.starts.tolist(), self.stops.tolist(), strict=True)]
