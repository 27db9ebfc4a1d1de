"""Signals during a block that created an object: it is removed however the command ends."""

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does: created objects are removed."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled(_SIGNALS, interrupt):
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not interrupt the end of the block."""
    with _handled((signal.SIGINT, *_SIGNALS), signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
