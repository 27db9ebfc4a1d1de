"""The rate of requests for the properties of partitions, and the partitions of each round. Pure.

Event Hubs answers 50 management requests per second and hub, over all clients, and rejects more. The rate of a
measurement leaves a part of that to hosts that open partitions. Partitions that do not fit in a round are in the next.
"""

from collections.abc import Sequence

AT_ONCE = 16  # requests at the start of a round
PER_SECOND = 32  # requests after those
A_ROUND = 512  # limit of a round: 16 seconds; two rounds cover the 1,024 partitions that a hub may have


def start_of(question: int) -> float:
    """Start of a request in a round, in seconds from the start of the round; the first request is number 0."""
    return max(0, question + 1 - AT_ONCE) / PER_SECOND


def turn(partitions: Sequence[str], first: int) -> tuple[list[str], int]:
    """The partitions of a round, and the start index of the next round.

    Args:
        partitions: All partition ids.
        first: The start index of this round; any number.
    """
    if len(partitions) <= A_ROUND:
        return list(partitions), 0
    first %= len(partitions)
    return [*partitions[first:], *partitions[:first]][:A_ROUND], (first + A_ROUND) % len(partitions)
