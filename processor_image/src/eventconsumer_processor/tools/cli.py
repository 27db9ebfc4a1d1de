"""Runs a command to its exit code: 0 done, 1 nothing found, 2 refused, 3 not carried out."""

import asyncio
import logging
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

import structlog
import typer

from eventconsumer_api.errors import EventConsumerError

DONE, NOTHING, REFUSED, FAILED = 0, 1, 2, 3


def run(command: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a command that returns its exit code.

    Args:
        command: What to run; an error of ours ends it with 3 and one line on stderr.

    Raises:
        Exit: Always, with the code.
    """
    quiet()
    try:
        code = asyncio.run(command)
    except EventConsumerError as error:
        say(f"eventconsumer: {error}")
        code = FAILED
    raise typer.Exit(code)


def say(message: str) -> None:
    """A message for whoever runs the command, in one line; the answer itself is on stdout."""
    print(" ".join(message.split()), file=sys.stderr)  # noqa: T201


def quiet() -> None:
    """The libraries' logs, and the hosts' where a command uses their code, are no part of the answer."""
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
