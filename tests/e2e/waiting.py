"""Waiting for the cluster: `tests.support.waiting`, where a failed kubectl counts as false."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import Demo
from tests.support.waiting import wait_until

T = TypeVar("T")


def until(question: Callable[[], T | None], awaited: object = "", *, pause: float = 0.5) -> T:
    """Poll until the result is true, and return it."""
    return wait_until(question, awaited, pause=pause, retried=DemoError)


def seconds_until(question: Callable[[], object], awaited: object = "") -> float:
    """Like `until`; returns the duration in seconds."""
    begun = time.monotonic()
    until(question, awaited)
    return time.monotonic() - begun


def condition(demo: Demo, name: str, kind: str) -> dict[str, Any]:
    """One condition of a consumer; empty if it does not exist yet."""
    status = demo.cluster.get("eventconsumer", name).get("status", {})
    return next((each for each in status.get("conditions", []) if each["type"] == kind), {})


def wait_for(demo: Demo, name: str, kind: str, status: str) -> dict[str, Any]:
    """Wait until a condition of a consumer has the status, and return it; on failure, show the condition."""
    found: dict[str, Any] = {}

    def has() -> bool:
        found.clear()
        found.update(condition(demo, name, kind))
        return found.get("status") == status

    try:
        until(has, f"{name}: {kind} is {status}")
    except AssertionError as error:
        raise AssertionError(f"{error}: {found}") from None
    return found
