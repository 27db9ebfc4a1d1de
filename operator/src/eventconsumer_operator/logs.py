"""The log: one JSON object a line on standard error, with everything that looks like a credential removed."""

import logging

import structlog

from eventconsumer_api.redaction import redact


def _redacted(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {name: redact(value) if isinstance(value, str) else value for name, value in event.items()}


def configure(level: str) -> None:
    """Send all logging of the process through one formatter."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _redacted,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # kopf tells of each handler call at INFO.
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLogger().level))
