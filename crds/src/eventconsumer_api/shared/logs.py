"""Logging of all programs: JSON lines in a pod, readable lines on a terminal, credentials in neither.

A JSON line has `timestamp` (UTC), `level`, `logger` and `message`, then fields such as `namespace`, `name` and
`partition`. Log entries of libraries have the same form, from WARNING on.
"""

import logging
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

from eventconsumer_api.shared.redaction import redact

# They log each request, call or link at INFO.
LIBRARIES = ("aiohttp", "asyncio", "azure", "kopf", "kubernetes", "msal", "py4j", "urllib3", "uamqp")


def configure(level: str = "INFO", *, stream: TextIO | None = None, **context: str) -> None:
    """Send all logging of the process, by structlog and by the standard library, to one stream in one form.

    Args:
        level: The minimum level: DEBUG, INFO, WARNING or ERROR.
        stream: The destination; None: standard error. On a terminal, lines are readable and coloured.
        **context: Default fields of each entry, such as the name of the resource.
    """
    stream = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _Context(context),
    ]
    readable = stream.isatty()
    ending: list[Processor] = (
        [_redacted, structlog.dev.ConsoleRenderer(colors=True)]
        if readable
        else [_arranged, _redacted, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.StackInfoRenderer(),
                structlog.processors.format_exc_info,
                *ending,
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.getLogger().level))


class _Context:
    """Adds the fields of the whole process."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __call__(self, _: object, __: str, event: EventDict) -> EventDict:
        return {**self._values, **event}


def _arranged(_: object, __: str, event: EventDict) -> EventDict:
    """Common fields come first."""
    first = {name: event.pop(name, None) for name in ("timestamp", "level", "logger")}
    return {**first, "message": event.pop("event", ""), **event}


def _redacted(_: object, __: str, event: EventDict) -> EventDict:
    return {name: _safe(value) for name, value in event.items()}


def _safe(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _safe(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_safe(each) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact(str(value))
