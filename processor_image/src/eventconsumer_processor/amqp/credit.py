"""Link credit: number of events that a sender may send. Pure.

Two limits apply: `prefetch` events, and a budget in bytes, by the recent size of events. Credit is renewed when half of
it is used. It is withdrawn when waiting events exceed the budget, or possible events exceed it by half: then events are
larger than estimated, or the budget has shrunk. So the bytes that wait for a slow reader stay near the budget, whatever
the prefetch.
"""

FIRST_EVENT_BYTES = 1024 * 1024  # assumed size of an event before the first arrives: the maximum of most hubs


def grant(*, prefetch: int, credit: int, waiting: int, held: int, typical: int, budget: int) -> int | None:
    """The new credit; None: unchanged.

    Args:
        prefetch: Maximum number of events in flight or waiting.
        credit: Remaining credit of the sender.
        waiting: Received events that were not read yet.
        held: Their bytes.
        typical: Recent size of an event, bytes.
        budget: Maximum number of waiting bytes.
    """
    if held > budget:
        return 0 if credit else None
    typical = max(1, typical)
    ceiling = max(1, min(prefetch, budget // typical))
    room = min(prefetch - waiting, (budget - held) // typical) if waiting else ceiling
    step = max(1, ceiling // 2)
    return room if room - credit >= step or credit - ceiling >= step else None
