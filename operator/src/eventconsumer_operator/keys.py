"""Key: which EventConsumer, and nothing about what happened to it.

A level-triggered reconcile is told only the name; what to do it finds out by looking. So events may be lost, merged
or repeated without harm.
"""

from typing import NamedTuple, Protocol


class Key(NamedTuple):
    """Namespace and name of an EventConsumer."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Notify(Protocol):
    """Takes keys that are worth looking at."""

    def __call__(self, key: Key, delay: float = 0.0, *, urgent: bool = False) -> None:
        """Say that `key` should be looked at.

        Args:
            key: Which resource.
            delay: In how many seconds.
            urgent: Whether it should be looked at though it failed a moment ago: its spec is new, or what kept
                everything from working is over.
        """
