"""How many events a sender may have on their way. Pure.

Two bounds hold at once: `prefetch` events, and a budget in bytes, by what events took lately. Credit is given again
when half of it is used, and taken back when the events that wait are more than the budget, or those that may come are
half as much again: they are larger than thought, or the budget became smaller. So what waits for a slow reader stays
near the budget, whatever the prefetch.
"""

FIRST_EVENT_BYTES = 1024 * 1024  # what an event is taken to have before one came: as much as most hubs accept


def grant(*, prefetch: int, credit: int, waiting: int, held: int, typical: int, budget: int) -> int | None:
    """What the credit is to be set to; None to leave it.

    Args:
        prefetch: Events that may be on their way or wait.
        credit: What the sender has left.
        waiting: Events that came and were not taken.
        held: Their bytes.
        typical: Bytes of an event, as seen lately.
        budget: Bytes that may wait.
    """
    if held > budget:
        return 0 if credit else None
    typical = max(1, typical)
    ceiling = max(1, min(prefetch, budget // typical))
    room = min(prefetch - waiting, (budget - held) // typical) if waiting else ceiling
    step = max(1, ceiling // 2)
    return room if room - credit >= step or credit - ceiling >= step else None
