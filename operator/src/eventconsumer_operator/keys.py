"""Keys of EventConsumers.

A level-triggered reconcile only gets the key; it reads the current state itself. So events can be lost, merged or
repeated without harm.
"""

from typing import NamedTuple, Protocol


class Key(NamedTuple):
    """Namespace and name of an EventConsumer."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Notify(Protocol):
    """Takes keys to reconcile."""

    def __call__(self, key: Key, delay: float = 0.0, *, urgent: bool = False) -> None:
        """Request a reconcile.

        Args:
            key: The resource.
            delay: Seconds from now.
            urgent: Ignore the backoff after failures: the spec has changed, or the API server is reachable again.
        """
