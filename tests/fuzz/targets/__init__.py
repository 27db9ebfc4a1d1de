"""The targets in Python: each gives bytes of others to parsers, and raises if a property does not hold.

Every parser gives a value, or raises the errors that its docstring names. A target allows these, and no others. Its
input is the bytes that storage, a peer or a pod has.
"""

from collections.abc import Callable
from importlib import import_module

MODULES = {
    "amqp": ("messages", "values", "connection", "websocket"),
    "bodies": ("bodies",),
    "storage": ("leases", "records", "notices", "letters", "gaps"),
    "tables": ("versions", "checkpoints"),
    "programs": ("documents", "reports", "lines", "credentials"),
}
"""The targets of each module: only the module of a target is imported to run it."""

TARGETS = tuple(target for targets in MODULES.values() for target in targets)


def load(target: str) -> Callable[[bytes], None]:
    """Import a target."""
    (module,) = (name for name, targets in MODULES.items() if target in targets)
    found: Callable[[bytes], None] = getattr(import_module(f"tests.fuzz.targets.{module}"), target)
    return found
