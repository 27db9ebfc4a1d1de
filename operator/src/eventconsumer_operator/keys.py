"""Key: which EventConsumer, and nothing about what happened to it.

A level-triggered reconcile is told only the name; what to do it finds out by looking. So events may be lost, merged
or repeated without harm.
"""

from typing import NamedTuple


class Key(NamedTuple):
    """Namespace and name of an EventConsumer."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
