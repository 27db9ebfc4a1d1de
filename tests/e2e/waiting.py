"""Waiting for the cluster: ask until the answer is true, and fail with what was seen last.

Nothing in a test sleeps for a fixed time where it can ask instead.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import Demo
from tests.support.patience import patiently

T = TypeVar("T")


def until(question: Callable[[], T | None], seconds: float, what: object = "", *, pause: float = 0.5) -> T:
    """Ask until the answer is true, and return it; a kubectl that fails counts as no.

    Args:
        question: Asked again and again.
        seconds: For how long.
        what: What is waited for; made text only where it does not come.
        pause: Seconds between questions.
    """
    deadline = time.monotonic() + patiently(seconds)
    answer: T | None = None
    while True:
        seen: object
        try:
            if answer := question():
                return answer
            seen = answer
        except DemoError as error:
            seen = error
        assert time.monotonic() < deadline, f"not within {seconds} s: {what} (last answer: {seen})"
        time.sleep(pause)


def seconds_until(question: Callable[[], object], seconds: float, what: object = "") -> float:
    """As `until`; the seconds it took."""
    begun = time.monotonic()
    until(question, seconds, what)
    return time.monotonic() - begun


def condition(demo: Demo, name: str, kind: str) -> dict[str, Any]:
    """One condition of a consumer; empty where it has none yet."""
    status = demo.cluster.get("eventconsumer", name).get("status", {})
    return next((each for each in status.get("conditions", []) if each["type"] == kind), {})


def wait_for(demo: Demo, name: str, kind: str, status: str, seconds: float) -> dict[str, Any]:
    """Wait until a condition of a consumer has the status; return it, or fail with what it says."""
    found: dict[str, Any] = {}

    def has() -> bool:
        found.clear()
        found.update(condition(demo, name, kind))
        return found.get("status") == status

    try:
        until(has, seconds, f"{name}: {kind} is {status}")
    except AssertionError as error:
        raise AssertionError(f"{error}: {found}") from None
    return found
