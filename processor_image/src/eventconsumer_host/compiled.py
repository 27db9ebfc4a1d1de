"""The compiled decoder, which is optional.

Arrow is not imported here: connections also serve programs that only query a few numbers.
"""

from functools import cache
from importlib import import_module
from types import ModuleType

import structlog

log = structlog.get_logger(__name__)


@cache
def find() -> ModuleType | None:
    """The compiled decoder; None if it is not installed, or if it cannot be loaded, which is logged."""
    try:
        return import_module("eventconsumer_decoder")
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        log.warning("the compiled decoder is not used", error=str(error))
        return None


def kind() -> str:
    """Which decoder is used: "compiled" or "python"."""
    return "compiled" if find() else "python"


def library() -> ModuleType:
    """The compiled decoder.

    Raises:
        ImportError: It is not available, see `find`.
    """
    decoder = find()
    if decoder is None:
        raise ImportError("the compiled decoder is not installed")
    return decoder
