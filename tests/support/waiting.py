"""Wait for an event: poll a condition until it is true. Tests poll instead of sleeping for a fixed time.

The only time limit is for hangs: it takes time only if a test fails, and no test checks durations with it. Durations
are measured in virtual time (tests/simulation) or by a benchmark (tests/bench).
"""

import time
from collections.abc import Callable
from typing import TypeVar

HANG_SECONDS = 300.0

T = TypeVar("T")


def wait_until(
    question: Callable[[], T | None], awaited: object, *, pause: float = 0.1, retried: type[Exception] | None = None
) -> T:
    """Poll until the result is true, and return it.

    Args:
        question: The condition, called repeatedly.
        awaited: The event; converted to text only on failure.
        pause: Seconds between calls.
        retried: An exception of `question` that counts as false.

    Raises:
        AssertionError: The result was not true within `HANG_SECONDS`; the message has the event and the last result.
    """
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        seen: object
        try:
            seen = answer = question()
            if answer:
                return answer
        except Exception as error:
            if retried is None or not isinstance(error, retried):
                raise
            seen = error
        assert time.monotonic() < deadline, f"not within {HANG_SECONDS:.0f} s: {awaited} (last answer: {seen})"
        time.sleep(pause)
