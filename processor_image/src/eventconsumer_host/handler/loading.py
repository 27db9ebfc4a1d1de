"""Loads the user's handler class by its name, and validates it before a partition is opened.

A mistake raises `Blocked` with the field `spec.processing.handler`, the cause and the remedy: the module or the class
is missing, the import fails, the name is not a class, a method is missing or has other parameters, or the class cannot
be created without arguments.

The name is text of a user of the resource, and an import runs code: a module of Python's standard library can start a
program (`antigravity` starts $BROWSER), and so can installed packages. So the module is one of the image's own folder
of code, in which a builder of the image has put it. It is found there before anything is imported.
"""

import importlib
import inspect
import sys
import threading
import traceback
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

import eventconsumer_host
from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_host.handler.api import EventProcessor
from eventconsumer_host.handler.deadletter import text_of

FIELD = "spec.processing.handler"
CODE = Path(eventconsumer_host.__path__[0]).parent
"""The image's folder of code, /app: that of this program, and of the modules of users."""
OWN = "eventconsumer_"
"""Beginning of the names of the packages of this program."""
_METHODS = {"open": 1, "process_events": 2, "close": 2}  # number of arguments of each
_OPTIONAL = {"open", "close"}

Factory = Callable[[], EventProcessor]
"""Creates a new instance; raises the errors of the constructor."""


def load(spec: str, folder: Path = CODE) -> Factory:
    """Import a handler class and create one instance. The imports may take long: call it in a thread.

    Args:
        spec: `package.module:Class`.
        folder: The folder in which the module or its package is.

    Raises:
        Blocked: The class cannot be used.
    """
    module_name, _, class_name = spec.partition(":")
    top = module_name.partition(".")[0]
    found_in = find(top, folder)
    found = getattr(_import(spec, module_name, found_in, folder), class_name, None)
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


def find(top: str, folder: Path) -> ModuleSpec:
    """Find a module or package in the folder of code, without importing anything.

    Args:
        top: Its name, without a dot: to find `a.b`, Python would import `a`.
        folder: The folder.

    Raises:
        Blocked: It is none of the folder, or has a name of Python or of this program.
    """
    if top in sys.stdlib_module_names or top.startswith(OWN):
        raise _invalid(f"{top} is a name of {'this program' if top.startswith(OWN) else 'Python'}: rename the module")
    importlib.invalidate_caches()
    found = PathFinder.find_spec(top, [str(folder)])
    if found is None:
        raise _invalid(
            f"there is no module {top} in {folder} of the image: build processing.image FROM the processor image, copy "
            f"the module there, and set processing.image. For a class of an installed package, copy a module with one "
            f"line there, such as shop.py with: from {top} import Shop"
        )
    if found.origin is None:  # a namespace package: parts of it may be anywhere
        raise _invalid(f"the folder {top} in {folder} has no __init__.py: add this file")
    if not _is_below(found.origin, folder):
        raise _invalid(f"{found.origin} is a link out of {folder}: copy the module there")
    return found


def _is_below(file: str, folder: Path) -> bool:
    return Path(file).resolve().is_relative_to(folder.resolve())


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


def _import(spec: str, name: str, top: ModuleSpec, folder: Path) -> ModuleType:
    """Import a module through its package, which is `top`; a module of the same name elsewhere on the path is not."""
    try:
        if top.name not in sys.modules:
            _execute(top)
        _check_file(sys.modules[top.name], folder)
        module = importlib.import_module(name)
    except Blocked:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(missing + "."):
            raise _invalid(f"there is no module {missing} in {folder} of the image: fix the name, or add it") from error
        raise _invalid(
            f"module {name} needs the module {missing}, which is not in the image: install it there"
        ) from error
    except (Exception, SystemExit) as error:
        raise _invalid(f"importing {name} for {spec} fails with {describe(error)}: fix the module") from error
    _check_file(module, folder)
    return module


def _check_file(module: ModuleType, folder: Path) -> None:
    file = getattr(module, "__file__", None)
    if file is None or not _is_below(file, folder):
        raise _invalid(
            f"the module {module.__name__} is that of {file or 'a package of the image'}, not of {folder}: rename yours"
        )


def _execute(found: ModuleSpec) -> None:
    """Execute a module as an import does (docs.python.org/3/library/importlib, "Importing a source file directly")."""
    module = module_from_spec(found)
    sys.modules[found.name] = module
    try:
        if found.loader is not None:
            found.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(found.name, None)
        raise


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
