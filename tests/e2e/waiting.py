"""Waiting for the cluster: as `tests.support.waiting`, with a kubectl that fails counted as no."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import Demo
from tests.support.waiting import wait_until

T = TypeVar("T")


def until(question: Callable[[], T | None], awaited: object = "", *, pause: float = 0.5) -> T:
    """Ask until the answer is true, and return it."""
    return wait_until(question, awaited, pause=pause, retried=DemoError)


def seconds_until(question: Callable[[], object], awaited: object = "") -> float:
    """As `until`; the seconds it took."""
    begun = time.monotonic()
    until(question, awaited)
    return time.monotonic() - begun


def condition(demo: Demo, name: str, kind: str) -> dict[str, Any]:
    """One condition of a consumer; empty where it has none yet."""
    status = demo.cluster.get("eventconsumer", name).get("status", {})
    return next((each for each in status.get("conditions", []) if each["type"] == kind), {})


def wait_for(demo: Demo, name: str, kind: str, status: str) -> dict[str, Any]:
    """Wait until a condition of a consumer has the status; return it, or fail with what it says."""
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
