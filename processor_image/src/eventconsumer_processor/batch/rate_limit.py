"""How fast the hub is asked about many partitions, and which ones in a round. Pure.

Event Hubs answers 50 management requests a second for each hub, whoever asks, and refuses more. A round of the one that
measures leaves room for hosts that open partitions; more partitions than it takes have their turn in the next one.
"""

from collections.abc import Sequence

AT_ONCE = 16  # questions
PER_SECOND = 32  # behind those
A_ROUND = 512  # at most: 16 seconds, and no partition of the 1,024 that a hub may have waits for longer than two rounds


def start_of(question: int) -> float:
    """When a question of a round may be asked: seconds from the round's start; the first one is number 0."""
    return max(0, question + 1 - AT_ONCE) / PER_SECOND


def turn(partitions: Sequence[str], first: int) -> tuple[list[str], int]:
    """The partitions of a round, and where the next round starts.

    Args:
        partitions: All ids.
        first: Where this round starts, an index; any number.
    """
    if len(partitions) <= A_ROUND:
        return list(partitions), 0
    first %= len(partitions)
    return [*partitions[first:], *partitions[:first]][:A_ROUND], (first + A_ROUND) % len(partitions)
