"""Wait for an event: ask until the answer is true. Nothing in a test sleeps for a fixed time where it can ask instead.

There is one limit, and it is for hangs. It costs time only where a test fails, and no test is judged by it: how fast
something happens is measured in virtual time (tests/simulation) or by a benchmark (tests/bench).
"""

import time
from collections.abc import Callable
from typing import TypeVar

HANG_SECONDS = 300.0

T = TypeVar("T")


def wait_until(
    question: Callable[[], T | None], awaited: object, *, pause: float = 0.1, retried: type[Exception] | None = None
) -> T:
    """Ask until the answer is true, and return it.

    Args:
        question: Asked again and again.
        awaited: The event; converted to text only where it does not come.
        pause: Seconds between questions.
        retried: An exception of `question` that counts as no.

    Raises:
        AssertionError: The answer was not true within `HANG_SECONDS`; it names the event and the last answer.
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
