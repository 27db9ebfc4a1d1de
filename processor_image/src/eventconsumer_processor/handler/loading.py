"""Loads the user's handler class by its name, and validates it before a partition is opened.

A mistake raises `Blocked` with the field `spec.processing.handler`, the cause and the remedy: the module or the class
is missing, the import fails, the name is not a class, a method is missing or has other parameters, or the class cannot
be created without arguments.
"""

import importlib
import inspect
import threading
import traceback
from collections.abc import Callable

from eventconsumer_api.conditions import Reason
from eventconsumer_api.errors import Blocked
from eventconsumer_processor.handler.api import EventProcessor
from eventconsumer_processor.handler.deadletter import text_of

FIELD = "spec.processing.handler"
_METHODS = {"open": 1, "process_events": 2, "close": 2}  # number of arguments of each
_OPTIONAL = {"open", "close"}

Factory = Callable[[], EventProcessor]
"""Creates a new instance; raises the errors of the constructor."""


def load(spec: str) -> Factory:
    """Import a handler class and create one instance. The imports may take long: call it in a thread.

    Args:
        spec: `package.module:Class`.

    Raises:
        Blocked: The class cannot be used.
    """
    module_name, _, class_name = spec.partition(":")
    found = getattr(_import(spec, module_name), class_name, None)
    if found is None:
        raise _invalid(f"module {module_name} has no class {class_name}: fix the name, or add the class")
    if not isinstance(found, type):
        raise _invalid(f"{spec} is {_kind(found)}, not a class: name a class with the method process_events")
    _check_methods(spec, found)
    try:
        first = found()
    except (Exception, SystemExit) as error:
        raise _invalid(
            f"{spec}() fails with {describe(error)}: the class must be created without arguments; move code that "
            "can fail temporarily to open"
        ) from error
    return _FirstThenNew(found, first)


def describe(error: BaseException) -> str:
    """An error in one line: its type, its message, and the place where it was raised."""
    text = text_of(error).strip().splitlines()
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rsplit('/', 1)[-1]}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{f': {text[0][:500]}' if text else ''}{where}"


class _FirstThenNew:
    """Returns the instance of the validation first, then new instances."""

    def __init__(self, made_by: Factory, first: EventProcessor) -> None:
        self._made_by = made_by
        self._first: EventProcessor | None = first
        self._lock = threading.Lock()

    def __call__(self) -> EventProcessor:
        with self._lock:
            first, self._first = self._first, None
        return self._made_by() if first is None else first


def _import(spec: str, name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(missing + "."):
            raise _invalid(
                f"there is no module {missing} in the image: build processing.image FROM the processor image, copy the "
                f"module to /app (or install it), and set processing.image"
            ) from error
        raise _invalid(
            f"module {name} needs the module {missing}, which is not in the image: install it there"
        ) from error
    except (Exception, SystemExit) as error:
        raise _invalid(f"importing {name} for {spec} fails with {describe(error)}: fix the module") from error


def _check_methods(spec: str, found: type) -> None:
    for name, count in _METHODS.items():
        method = getattr(found, name, None)
        if method is None and name in _OPTIONAL:
            continue
        if not callable(method) or name in getattr(found, "__abstractmethods__", ()):
            raise _invalid(f"{spec} has no method {name}: add it (open and close may be left out)")
        try:
            inspect.signature(method).bind(*range(count + 1))  # one more for self
        except (TypeError, ValueError):
            arguments = {"open": "context", "process_events": "context, batch", "close": "context, reason"}[name]
            raise _invalid(f"{spec}.{name} must take (self, {arguments})") from None


def _kind(found: object) -> str:
    return "a function" if inspect.isroutine(found) else f"a value of type {type(found).__name__}"


def _invalid(message: str) -> Blocked:
    return Blocked(FIELD, Reason.HANDLER_INVALID, message)
